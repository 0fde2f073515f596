-- Raw logs in the shape of OpenTelemetry's log table (exporter 0.151 and later, ClickStack), so that tools made for it
-- find what they know. A bucket of five minutes leads the key: most questions are about a short time and one service.
-- Days are partitions, because whole days expire. The text index doubles the disk and finds a rare word in milliseconds.
CREATE TABLE IF NOT EXISTS otel_logs
(
    Timestamp DateTime64(9) CODEC(Delta(8), ZSTD(1)),
    TraceId String CODEC(ZSTD(1)),
    SpanId String CODEC(ZSTD(1)),
    TraceFlags UInt8,
    SeverityText LowCardinality(String) CODEC(ZSTD(1)),
    SeverityNumber UInt8,
    ServiceName LowCardinality(String) CODEC(ZSTD(1)),
    Body String CODEC(ZSTD(1)),
    ResourceSchemaUrl LowCardinality(String) CODEC(ZSTD(1)),
    ResourceAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    ScopeSchemaUrl LowCardinality(String) CODEC(ZSTD(1)),
    ScopeName String CODEC(ZSTD(1)),
    ScopeVersion LowCardinality(String) CODEC(ZSTD(1)),
    ScopeAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    LogAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    EventName String CODEC(ZSTD(1)),
    INDEX idx_res_attr_value mapValues(ResourceAttributes) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX idx_log_attr_value mapValues(LogAttributes) TYPE bloom_filter(0.01) GRANULARITY 1,
    INDEX idx_body Body TYPE text(tokenizer = splitByNonAlpha, preprocessor = lower(Body))
)
ENGINE = MergeTree
PARTITION BY toDate(Timestamp)
PRIMARY KEY (toStartOfFiveMinutes(Timestamp), ServiceName)
ORDER BY (toStartOfFiveMinutes(Timestamp), ServiceName, Timestamp)
TTL toDateTime(Timestamp) + INTERVAL 14 DAY
SETTINGS ttl_only_drop_parts = 1;

-- What ClickHouse itself reads from the raw topic, in a group of its own: our processes never see it. A message is one
-- value, whatever is in it (RawBLOB), because a raw topic holds plain lines beside JSON.
CREATE TABLE IF NOT EXISTS raw_logs_queue
(
    raw String
)
ENGINE = Kafka
SETTINGS kafka_broker_list = {broker}, kafka_topic_list = {topic}, kafka_group_name = {group}, kafka_format = 'RawBLOB',
    kafka_handle_error_mode = 'stream', kafka_num_consumers = 1, kafka_max_block_size = 65536;

-- Messages that ClickHouse could not take, whole, with its reason; nothing is passed over in silence.
CREATE TABLE IF NOT EXISTS otel_logs_errors
(
    topic LowCardinality(String),
    partition UInt64,
    offset UInt64,
    message String CODEC(ZSTD(3)),
    error String CODEC(ZSTD(1)),
    received DateTime('UTC') DEFAULT now()
)
ENGINE = MergeTree
ORDER BY (topic, partition, offset)
TTL received + INTERVAL 14 DAY;

CREATE MATERIALIZED VIEW IF NOT EXISTS otel_logs_errors_from_queue TO otel_logs_errors AS
SELECT
    _topic AS topic,
    _partition AS partition,
    _offset AS offset,
    _raw_message AS message,
    _error AS error
FROM raw_logs_queue
WHERE _error != '';

-- The fields of our envelopes (docs/envelopes.md), the first of each list that exists. A number is a time in seconds,
-- milliseconds, microseconds or nanoseconds by its size; without any time in the record, Kafka's counts.
CREATE MATERIALIZED VIEW IF NOT EXISTS otel_logs_from_queue TO otel_logs AS
WITH
    startsWith(raw, '{"') AND isValidJSON(raw) AS is_json,
    if(is_json, arrayFirst(x -> JSONHas(raw, x), ['message', 'log', 'msg', 'MESSAGE', 'body']), '') AS text_field,
    if(is_json, arrayFirst(x -> JSONHas(raw, x),
        ['timestamp', '@timestamp', 'time', 'date', 'ts', '__REALTIME_TIMESTAMP']), '') AS time_field,
    trim(BOTH '"' FROM JSONExtractRaw(raw, time_field)) AS time_text,
    toDecimal128OrNull(time_text, 9) AS time_number,
    toInt64OrNull(toString(toDecimal128(multiIf(
        time_number >= 100000000000000000, time_number,
        time_number >= 100000000000000, time_number * 1000,
        time_number >= 100000000000, time_number * 1000000,
        time_number * 1000000000), 0))) AS time_ns,
    arrayFirst(x -> x != '', [
        JSONExtractString(raw, 'host'), JSONExtractString(raw, 'hostname'), JSONExtractString(raw, 'node'),
        JSONExtractString(raw, 'node_name'), JSONExtractString(raw, 'kubernetes', 'pod_node_name'),
        JSONExtractString(raw, 'kubernetes', 'host'), JSONExtractString(raw, '_HOSTNAME'),
        JSONExtractString(raw, 'resource', 'host.name'), _key]) AS node,
    JSONExtractString(raw, 'kubernetes', 'container_name') AS container,
    lower(arrayFirst(x -> x != '', [
        JSONExtractString(raw, 'source'), JSONExtractString(raw, '_TRANSPORT'), JSONExtractString(raw, 'tag')])) AS source,
    arrayFirst(x -> x != '', [
        JSONExtractString(raw, 'level'), JSONExtractString(raw, 'severity'), JSONExtractString(raw, 'loglevel'),
        transform(trim(BOTH '"' FROM JSONExtractRaw(raw, 'PRIORITY')),
            ['0', '1', '2', '3', '4', '5', '6', '7'],
            ['FATAL', 'FATAL', 'FATAL', 'ERROR', 'WARN', 'INFO', 'INFO', 'DEBUG'], '')]) AS told_severity,
    transform(upper(told_severity), ['WARNING', 'ERR', 'CRIT', 'CRITICAL', 'EMERG', 'ALERT', 'NOTICE'],
        ['WARN', 'ERROR', 'FATAL', 'FATAL', 'FATAL', 'FATAL', 'INFO'], upper(told_severity)) AS severity
SELECT
    multiIf(
        time_ns IS NOT NULL, fromUnixTimestamp64Nano(assumeNotNull(time_ns)),
        parseDateTime64BestEffortOrNull(time_text, 9, 'UTC') IS NOT NULL,
            assumeNotNull(parseDateTime64BestEffortOrNull(time_text, 9, 'UTC')),
        _timestamp_ms IS NOT NULL, toDateTime64(assumeNotNull(_timestamp_ms), 9),
        now64(9)) AS Timestamp,
    severity AS SeverityText,
    transform(severity, ['TRACE', 'DEBUG', 'INFO', 'WARN', 'ERROR', 'FATAL'], [1, 5, 9, 13, 17, 21], 0) AS SeverityNumber,
    multiIf(
        source IN ('kernel', 'kmsg'), 'kernel',
        container != '', container,
        JSONExtractString(raw, 'SYSLOG_IDENTIFIER') != '', JSONExtractString(raw, 'SYSLOG_IDENTIFIER'),
        JSONExtractString(raw, 'appname') != '', JSONExtractString(raw, 'appname'),
        source != '', source,
        'unknown') AS ServiceName,
    trim(TRAILING '\n' FROM multiIf(
        text_field = '', raw,
        JSONType(raw, text_field) = 'Array', arrayStringConcat(arrayMap(x -> char(x), JSONExtract(raw, text_field, 'Array(UInt8)'))),
        JSONExtractString(raw, text_field))) AS Body,
    mapFilter((name, value) -> value != '', map(
        'host.name', node,
        'k8s.node.name', if(JSONHas(raw, 'kubernetes'), node, ''),
        'k8s.pod.name', JSONExtractString(raw, 'kubernetes', 'pod_name'),
        'k8s.namespace.name', arrayFirst(x -> x != '', [
            JSONExtractString(raw, 'kubernetes', 'pod_namespace'), JSONExtractString(raw, 'kubernetes', 'namespace_name')]),
        'k8s.container.name', container,
        'service.name', ServiceName)) AS ResourceAttributes,
    mapUpdate(
        mapFilter((name, value) -> name NOT IN (text_field, time_field, 'kubernetes'),
            if(is_json, CAST(arrayMap(x -> (x.1, trim(BOTH '"' FROM left(x.2, 4096))), arraySlice(JSONExtractKeysAndValuesRaw(raw), 1, 64)),
                'Map(LowCardinality(String), String)'), CAST(map(), 'Map(LowCardinality(String), String)'))),
        CAST(map('kafka.topic', _topic, 'kafka.partition', toString(_partition), 'kafka.offset', toString(_offset)),
            'Map(LowCardinality(String), String)')) AS LogAttributes
FROM raw_logs_queue
WHERE _error = '';
