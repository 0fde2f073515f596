-- What the page and the panels ask for beside incidents and matches. Every table is safe to write twice: one row an id
-- (ReplacingMergeTree), or only the smallest and the largest of what was told (AggregatingMergeTree).
-- Times are stored as differences (Delta) before ZSTD: neighbours are close, so most bytes are noughts.

-- What lists sort, filter and sum by stands in columns; `words` is what a search looks through, in lower case:
-- of rows of before it is made from the document, of others the document is not read.
ALTER TABLE incidents ADD COLUMN IF NOT EXISTS verdict LowCardinality(String) AFTER action;
ALTER TABLE incidents ADD COLUMN IF NOT EXISTS blast_gpus UInt32 AFTER blast_jobs;
ALTER TABLE incidents ADD COLUMN IF NOT EXISTS steps_lost Nullable(Int64) AFTER verdict;
ALTER TABLE incidents ADD COLUMN IF NOT EXISTS gpu_hours_lost Nullable(Float64) AFTER steps_lost;
ALTER TABLE incidents ADD COLUMN IF NOT EXISTS words String DEFAULT lowerUTF8(substringUTF8(document, 1, 16384))
    CODEC(ZSTD(3)) AFTER document;

-- No index on `words`: a search is for parts of words, which a text index only finds by triples of letters, and that
-- saves nothing: 100,000 incidents are looked through in 0.1 s with it and without (make bench-clickhouse).

-- A node's lines come in bursts, so most granules of `matches` do not name it. Of 100 million lines those of a seldom
-- node are found in 1.0 s instead of 4.0 s, for 1 % more disk. Words, jobs and ranks of all lines are searched by nothing.
ALTER TABLE matches ADD INDEX IF NOT EXISTS idx_node node TYPE set(0) GRANULARITY 1;

-- One row a signal, with the incident that it went into. By incident first: that is how it is read.
CREATE TABLE IF NOT EXISTS signals
(
    signal_id String,
    incident_id String,
    event_time DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    onset DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    rule LowCardinality(String),
    class LowCardinality(String),
    severity LowCardinality(String),
    role LowCardinality(String),
    cluster LowCardinality(String),
    source LowCardinality(String),
    node LowCardinality(String),
    job String CODEC(ZSTD(1)),
    rank Nullable(Int64),
    gpu LowCardinality(String),
    text String CODEC(ZSTD(1)),
    stored DateTime('UTC') MATERIALIZED now()
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(event_time)
ORDER BY (incident_id, event_time, signal_id)
TTL stored + INTERVAL 90 DAY
SETTINGS non_replicated_deduplication_window = 1000;

-- The steps of each rank by minute. `rank` is -1 for a line that names none; the key keeps a job's minute together.
CREATE TABLE IF NOT EXISTS progress
(
    cluster LowCardinality(String),
    job String CODEC(ZSTD(1)),
    minute DateTime('UTC') CODEC(Delta(4), ZSTD(1)),
    rank Int32 CODEC(Delta(4), ZSTD(1)),
    node LowCardinality(String),
    first_event_time SimpleAggregateFunction(min, DateTime64(9, 'UTC')) CODEC(Delta(8), ZSTD(1)),
    last_event_time SimpleAggregateFunction(max, DateTime64(9, 'UTC')) CODEC(Delta(8), ZSTD(1)),
    first_step SimpleAggregateFunction(min, Nullable(Int64)),
    last_step SimpleAggregateFunction(max, Nullable(Int64)),
    saved_step SimpleAggregateFunction(max, Nullable(Int64)),
    stored SimpleAggregateFunction(max, DateTime('UTC')) MATERIALIZED now()
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(minute)
ORDER BY (cluster, job, minute, rank, node)
TTL stored + INTERVAL 30 DAY
SETTINGS non_replicated_deduplication_window = 1000;

-- Where each rank sat, from when on, as banners told it; a rank's newest row before a time is its place then. Two
-- banners of one moment may each tell a part: the larger of what they tell is what is known. `rank` -1: of all the job.
CREATE TABLE IF NOT EXISTS placements
(
    cluster LowCardinality(String),
    job String CODEC(ZSTD(1)),
    rank Int32,
    since DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    node LowCardinality(String),
    local_rank SimpleAggregateFunction(max, Int32),
    gpu SimpleAggregateFunction(max, String) CODEC(ZSTD(1)),
    world_size SimpleAggregateFunction(max, UInt32),
    pod SimpleAggregateFunction(max, String) CODEC(ZSTD(1)),
    stored SimpleAggregateFunction(max, DateTime('UTC')) MATERIALIZED now()
)
ENGINE = AggregatingMergeTree
ORDER BY (cluster, job, rank, since, node)
TTL stored + INTERVAL 90 DAY
SETTINGS non_replicated_deduplication_window = 1000;

-- Jobs handed in, waiting, started, preempted; nodes idle. `kind` is one of rules.recorded.CAPACITY_KINDS.
CREATE TABLE IF NOT EXISTS capacity_events
(
    event_id String,
    event_time DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    kind LowCardinality(String),
    cluster LowCardinality(String),
    job String CODEC(ZSTD(1)),
    node LowCardinality(String),
    pod String CODEC(ZSTD(1)),
    count UInt32,
    rule LowCardinality(String),
    text String CODEC(ZSTD(1)),
    stored DateTime('UTC') MATERIALIZED now()
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(event_time)
ORDER BY (cluster, event_time, event_id)
TTL stored + INTERVAL 180 DAY
SETTINGS non_replicated_deduplication_window = 1000;

-- Numbers that lines told (GPU memory, temperature), by minute; `device` is a GPU's address or number, if named.
CREATE TABLE IF NOT EXISTS measurements
(
    cluster LowCardinality(String),
    name LowCardinality(String),
    job String CODEC(ZSTD(1)),
    node LowCardinality(String),
    rank Int32,
    device LowCardinality(String),
    minute DateTime('UTC') CODEC(Delta(4), ZSTD(1)),
    smallest SimpleAggregateFunction(min, Float64) CODEC(Gorilla, ZSTD(1)),
    largest SimpleAggregateFunction(max, Float64) CODEC(Gorilla, ZSTD(1)),
    stored SimpleAggregateFunction(max, DateTime('UTC')) MATERIALIZED now()
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(minute)
ORDER BY (cluster, name, job, node, rank, device, minute)
TTL stored + INTERVAL 30 DAY
SETTINGS non_replicated_deduplication_window = 1000;

-- Where lines are missing: a shipper that fell silent, records deleted before they were read, numbers left out. The id
-- alone is the key: of records that were deleted only the time at which that was met is known, and a second meeting of
-- the same has another one. Few rows, so times need no place in the key.
CREATE TABLE IF NOT EXISTS evidence_gaps
(
    gap_id String,
    kind LowCardinality(String),
    cluster LowCardinality(String),
    node LowCardinality(String),
    job String CODEC(ZSTD(1)),
    source String CODEC(ZSTD(1)),
    begins DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    ends DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    records Nullable(UInt64),
    text String CODEC(ZSTD(1)),
    stored DateTime('UTC') MATERIALIZED now()
)
ENGINE = ReplacingMergeTree
ORDER BY (cluster, gap_id)
TTL stored + INTERVAL 180 DAY
SETTINGS non_replicated_deduplication_window = 1000;

-- Who was told what, or was not and why: one row a notification, target and outcome, the
-- newest.
CREATE TABLE IF NOT EXISTS deliveries
(
    notification_id String,
    target LowCardinality(String),
    outcome LowCardinality(String),
    incident_id String,
    revision UInt64,
    kind LowCardinality(String),
    reason String CODEC(ZSTD(1)),
    event_time DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    decided DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    stored DateTime('UTC') MATERIALIZED now()
)
ENGINE = ReplacingMergeTree(decided)
ORDER BY (incident_id, notification_id, target, outcome)
TTL stored + INTERVAL 365 DAY
SETTINGS index_granularity = 256, non_replicated_deduplication_window = 1000;

-- What people say of an incident: `verdict` is right or wrong; the newest of each person counts. Never deleted.
CREATE TABLE IF NOT EXISTS feedback
(
    incident_id String,
    who String,
    given DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    revision UInt64,
    verdict LowCardinality(String),
    true_class LowCardinality(String),
    note String CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree(given)
ORDER BY (incident_id, who)
SETTINGS index_granularity = 256, non_replicated_deduplication_window = 1000;

-- What people do not want to hear of for a while. `matchers` have to fit an incident all; one that is taken back
-- ends at the time of that.
CREATE TABLE IF NOT EXISTS silences
(
    silence_id String,
    changed DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    matchers Map(LowCardinality(String), String),
    begins DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    ends DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    who String,
    reason String CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree(changed)
ORDER BY silence_id
SETTINGS index_granularity = 256, non_replicated_deduplication_window = 1000;

-- What each process counted, every 15 s: its Prometheus metrics, so that panels need no second database.
CREATE TABLE IF NOT EXISTS pipeline_metrics
(
    time DateTime('UTC') CODEC(Delta(4), ZSTD(1)),
    process LowCardinality(String),
    name LowCardinality(String),
    labels Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    value Float64 CODEC(Gorilla, ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toDate(time)
ORDER BY (name, process, labels, time)
TTL time + INTERVAL 14 DAY
SETTINGS non_replicated_deduplication_window = 1000;

-- How many lines by hour, for panels over months. Counted as a set of ids, so that a replay adds nothing. The class
-- leads the key, because panels are about some classes: over 30 days of 100 million lines they take a sixth of the time
-- that they take with the cluster first, and those about all classes no longer.
CREATE TABLE IF NOT EXISTS match_rates
(
    cluster LowCardinality(String),
    hour DateTime('UTC') CODEC(Delta(4), ZSTD(1)),
    class LowCardinality(String),
    severity LowCardinality(String),
    source LowCardinality(String),
    rule LowCardinality(String),
    node LowCardinality(String),
    lines AggregateFunction(uniqCombined(12), String) CODEC(ZSTD(1)),
    stored SimpleAggregateFunction(max, DateTime('UTC')) DEFAULT now()
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(hour)
ORDER BY (class, hour, cluster, severity, source, rule, node)
TTL stored + INTERVAL 365 DAY
SETTINGS non_replicated_deduplication_window = 1000;

CREATE MATERIALIZED VIEW IF NOT EXISTS match_rates_from_matches TO match_rates AS
SELECT
    cluster,
    toStartOfHour(toDateTime(event_time, 'UTC')) AS hour,
    class,
    severity,
    source,
    rule,
    node,
    uniqCombinedState(12)(match_id) AS lines
FROM matches
GROUP BY cluster, hour, class, severity, source, rule, node;
