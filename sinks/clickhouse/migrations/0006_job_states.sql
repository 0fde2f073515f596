-- The state of each job according to the engine (rules.model.ledger.JobState); the newest counts. `rank` is -1 and times
-- are 0 where they are not known.
CREATE TABLE IF NOT EXISTS job_states
(
    cluster LowCardinality(String),
    job String CODEC(ZSTD(1)),
    time DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    phase LowCardinality(String),
    since DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    attempt DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    outcome LowCardinality(String),
    verdict LowCardinality(String),
    node LowCardinality(String),
    rank Int32,
    text String CODEC(ZSTD(1)),
    world_size UInt32,
    behind Array(Int32) CODEC(Delta(4), ZSTD(1)),
    quiet Array(Int32) CODEC(Delta(4), ZSTD(1)),
    lost_nodes Array(String) CODEC(ZSTD(1)),
    stored DateTime('UTC') MATERIALIZED now()
)
ENGINE = ReplacingMergeTree(time)
ORDER BY (cluster, job)
TTL stored + INTERVAL 90 DAY
SETTINGS index_granularity = 256, non_replicated_deduplication_window = 1000;
