-- Who takes care of an incident. Every word is a row, so that it can be told later who said what; the newest of an
-- incident counts, whoever it is from, and one with `is_taken_back` says that nobody does. Never deleted. The note is not
-- part of the key, so the same word written twice is one row.
CREATE TABLE IF NOT EXISTS acknowledgements
(
    incident_id String,
    given DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    who String,
    is_taken_back Bool,
    note String CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree
ORDER BY (incident_id, given, who)
SETTINGS index_granularity = 256, non_replicated_deduplication_window = 1000;
