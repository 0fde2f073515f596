-- Which installation wrote an incident: the prefix of its topics, or the machine and data folder of `epicenter run`.
ALTER TABLE incidents ADD COLUMN IF NOT EXISTS writer LowCardinality(String) DEFAULT '';
