-- Every statement ends with a semicolon at a line's end, and may run any number of times.
-- `stored` is when the row arrived here: rows age by it, so that a replay of last year's logs does not vanish at once.

CREATE TABLE IF NOT EXISTS schema_migrations
(
    version UInt32,
    name String,
    applied DateTime('UTC') DEFAULT now()
)
ENGINE = ReplacingMergeTree
ORDER BY version;

-- The newest state of each incident. No partitions: rows of one id in two partitions would never merge.
CREATE TABLE IF NOT EXISTS incidents
(
    incident_id String,
    revision UInt64,
    status LowCardinality(String),
    class LowCardinality(String),
    severity LowCardinality(String),
    title String CODEC(ZSTD(1)),
    cluster LowCardinality(String),
    jobs Array(String) CODEC(ZSTD(1)),
    nodes Array(String) CODEC(ZSTD(1)),
    root_class LowCardinality(String),
    root_rule LowCardinality(String),
    root_node String CODEC(ZSTD(1)),
    root_rank Nullable(Int64),
    root_gpu String CODEC(ZSTD(1)),
    root_event_time DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    confidence Float64,
    blast_nodes UInt32,
    blast_ranks UInt32,
    blast_jobs UInt32,
    first_seen DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    last_seen DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    signal_count UInt64,
    action LowCardinality(String),
    merged_into String,
    document String CODEC(ZSTD(3))
)
ENGINE = ReplacingMergeTree(revision)
ORDER BY incident_id
SETTINGS index_granularity = 256, non_replicated_deduplication_window = 1000;

-- Every revision, for "what did it look like when the page went out?".
CREATE TABLE IF NOT EXISTS incident_revisions
(
    incident_id String,
    revision UInt64,
    status LowCardinality(String),
    class LowCardinality(String),
    severity LowCardinality(String),
    cluster LowCardinality(String),
    confidence Float64,
    last_seen DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    signal_count UInt64,
    document String CODEC(ZSTD(3)),
    stored DateTime('UTC') MATERIALIZED now()
)
ENGINE = ReplacingMergeTree
ORDER BY (incident_id, revision)
TTL stored + INTERVAL 90 DAY
SETTINGS index_granularity = 256, non_replicated_deduplication_window = 1000;

-- One row a line that a rule fits. Months, not days: a replay of a year is then 12 parts, not 365.
CREATE TABLE IF NOT EXISTS matches
(
    match_id String,
    event_time DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    rule LowCardinality(String),
    class LowCardinality(String),
    severity LowCardinality(String),
    role LowCardinality(String),
    cluster LowCardinality(String),
    source LowCardinality(String),
    node LowCardinality(String),
    job String CODEC(ZSTD(1)),
    rank Nullable(Int64),
    fields Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    text String CODEC(ZSTD(1)),
    position_source LowCardinality(String),
    position_offset Int64 CODEC(Delta(8), ZSTD(1)),
    stored DateTime('UTC') MATERIALIZED now()
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(event_time)
ORDER BY (cluster, event_time, node, match_id)
TTL stored + INTERVAL 90 DAY
SETTINGS non_replicated_deduplication_window = 1000;

-- Who was alive, by minute. Only min and max, so that a beat told twice changes nothing.
CREATE TABLE IF NOT EXISTS liveness
(
    cluster LowCardinality(String),
    job String CODEC(ZSTD(1)),
    node LowCardinality(String),
    minute DateTime('UTC') CODEC(Delta(4), ZSTD(1)),
    first_event_time SimpleAggregateFunction(min, DateTime64(9, 'UTC')) CODEC(Delta(8), ZSTD(1)),
    last_event_time SimpleAggregateFunction(max, DateTime64(9, 'UTC')) CODEC(Delta(8), ZSTD(1)),
    last_step SimpleAggregateFunction(max, Nullable(Int64)),
    stored SimpleAggregateFunction(max, DateTime('UTC')) MATERIALIZED now()
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(minute)
ORDER BY (cluster, job, node, minute)
TTL stored + INTERVAL 30 DAY
SETTINGS non_replicated_deduplication_window = 1000;

-- Records that could not be processed, whole. No partitions: the same record read again has a new `received`.
CREATE TABLE IF NOT EXISTS dead_letters
(
    dead_letter_id String,
    reason String CODEC(ZSTD(1)),
    position_source LowCardinality(String),
    position_offset Int64,
    size_bytes UInt64,
    value String CODEC(ZSTD(3)),
    key Nullable(String) CODEC(ZSTD(1)),
    received DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    stored DateTime('UTC') MATERIALIZED now()
)
ENGINE = ReplacingMergeTree
ORDER BY dead_letter_id
TTL stored + INTERVAL 90 DAY
SETTINGS index_granularity = 256, non_replicated_deduplication_window = 1000;
