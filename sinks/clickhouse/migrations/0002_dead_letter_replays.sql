-- Each time that a dead letter's record was sent again: where to, where it first stood, and the how-manieth time.
CREATE TABLE IF NOT EXISTS dead_letter_replays
(
    dead_letter_id String,
    number UInt32,
    first_source LowCardinality(String),
    first_offset Int64,
    sent_source LowCardinality(String),
    sent_offset Int64,
    sent DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    stored DateTime('UTC') MATERIALIZED now()
)
ENGINE = ReplacingMergeTree
ORDER BY (dead_letter_id, sent_source, sent_offset)
TTL stored + INTERVAL 90 DAY
SETTINGS index_granularity = 256, non_replicated_deduplication_window = 1000;
