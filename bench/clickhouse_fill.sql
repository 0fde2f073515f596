-- What bench/clickhouse_fill.py makes; each comment begins with the name of what the statement makes.

-- matches: Lines that rules fit. A few nodes log far more often than others, each with a few kinds of failure.
INSERT INTO matches (match_id, event_time, rule, class, severity, role, cluster, source, node, job, rank, fields, text,
  position_source, position_offset)
WITH toUInt32(pow(rand64(1) / 18446744073709551615., 2) * {nodes}) AS n, {rules}[cityHash64(n, rand64(3) % 4) % {kinds} + 1] AS one
SELECT leftPad(lower(hex(sipHash64(number))), 16, '0'), fromUnixTimestamp64Nano(toInt64({begin_ns} + (number + rand64(2) / 18446744073709551615.) * {step_ns})), one.1, one.2, one.3, one.4,
  if(n % 2 = 0, 'east', 'west'), one.5, concat('gpu-', toString(n)), toString(880000 + cityHash64(n, intDiv(number, 1000000)) % 2000),
  if(rand64(4) % 3 = 0, NULL, rand64(4) % {big_ranks}), map('pci', concat('0000:', lower(hex(toUInt8(n * 8 + number % 8))), ':00')),
  concat('[', toString(number / 7), '] NVRM: Xid (PCI:0000:', lower(hex(toUInt8(number))), ':00): 94, pid=', toString(rand64(5) % 100000),
    ', name=python3, Ch ', toString(rand64(6) % 64), ', ', one.2, ' on ', toString(n)),
  concat('logs.raw/', toString(number % 64)), number
FROM numbers({first}, {rows});

-- incidents: One long real incident, repeated for many nodes, jobs and classes.
INSERT INTO incidents (incident_id, revision, status, class, severity, title, cluster, jobs, nodes, root_class, root_rule,
  root_node, root_rank, root_gpu, root_event_time, confidence, blast_nodes, blast_ranks, blast_jobs, blast_gpus, first_seen,
  last_seen, signal_count, action, verdict, steps_lost, gpu_hours_lost, merged_into, document, words)
WITH toUInt32(pow(rand64(1) / 18446744073709551615., 2) * {nodes}) AS n, {rules}[cityHash64(n, rand64(3) % 4) % {kinds} + 1] AS one, toInt64({begin_ns} + (number + rand64(2) / 18446744073709551615.) * {step_ns}) AS time_ns,
  arrayMap(x -> toString(880000 + cityHash64(number, x) % 2000), range(1 + number % 3)) AS jobs,
  arrayMap(x -> concat('gpu-', toString((n + x) % {nodes})), range(1 + number % 16)) AS nodes,
  if(number = 7, '{big_incident}', leftPad(lower(hex(sipHash64(number, 1))), 16, '0')) AS id
SELECT id, 3, if(number > {all} - 50, 'open', 'resolved'), one.2, one.3, concat(one.2, ' on gpu-', toString(n), ', which ended job ', jobs[1]), if(n % 2 = 0, 'east', 'west'), jobs, nodes,
  one.2, one.1, concat('gpu-', toString(n)), number % 64, concat('0000:', lower(hex(toUInt8(n * 8 + number % 8))), ':00'),
  fromUnixTimestamp64Nano(time_ns), (number % 100) / 100, length(nodes), length(nodes) * 8, length(jobs), length(nodes) * 8,
  fromUnixTimestamp64Nano(time_ns), fromUnixTimestamp64Nano(time_ns + 3600000000000), 30, 'drain', '', number % 500,
  (number % 977) / 3, if(number % 50 = 0, '{big_incident}', ''),
  replaceAll({document}, {known_id}, id), concat(id, '\n', lower(concat(one.2, ' on gpu-', toString(n), ', which ended job ', jobs[1])), '\n', arrayStringConcat(nodes, '\n'), '\n', {words})
FROM numbers({first}, {rows});

-- incident_revisions: Three revisions of each.
INSERT INTO incident_revisions (incident_id, revision, status, class, severity, cluster, confidence, last_seen, signal_count, document)
SELECT incident_id, number, status, class, severity, cluster, confidence, last_seen, signal_count, document
FROM incidents CROSS JOIN numbers(1, 3) AS revisions;

-- signals: Twenty of each incident.
INSERT INTO signals (signal_id, incident_id, event_time, onset, rule, class, severity, role, cluster, source, node, job, rank, gpu, text)
SELECT leftPad(lower(hex(sipHash64(incident_id, number))), 16, '0'), incident_id, first_seen + toIntervalSecond(number),
  first_seen + toIntervalSecond(number), root_rule, class, severity, 'cascade', cluster, 'worker', nodes[number % length(nodes) + 1], jobs[1],
  number % {big_ranks}, '', concat('[rank', toString(number), ']: Watchdog caught collective operation timeout of ', title)
FROM incidents CROSS JOIN numbers(20) AS told WHERE incident_id != '{big_incident}';

-- signals of one incident: Very many.
INSERT INTO signals (signal_id, incident_id, event_time, onset, rule, class, severity, role, cluster, source, node, job, rank, gpu, text)
SELECT leftPad(lower(hex(sipHash64(incident_id, number))), 16, '0'), incident_id, first_seen + toIntervalSecond(number),
  first_seen + toIntervalSecond(number), root_rule, class, severity, 'cascade', cluster, 'worker', nodes[number % length(nodes) + 1], jobs[1],
  number % {big_ranks}, '', concat('[rank', toString(number), ']: Watchdog caught collective operation timeout of ', title)
FROM incidents CROSS JOIN numbers({big_signals}) AS told WHERE incident_id = '{big_incident}';

-- progress: Every rank of one large job, for the last six hours.
INSERT INTO progress (cluster, job, minute, rank, node, first_event_time, last_event_time, first_step, last_step, saved_step)
WITH number % {big_ranks} AS rank, intDiv(number, {big_ranks}) AS minutes, {end_s} - 60 * ({minutes} - minutes) AS second
SELECT 'east', '{big_job}', toDateTime(second), rank, concat('gpu-', toString(intDiv(rank, 8))), toDateTime(second), toDateTime(second + 59),
  minutes * 6, minutes * 6 + 5, if(minutes % 30 = 0, minutes * 6, NULL)
FROM numbers({first}, {rows});

-- progress of other jobs: A hundred jobs in which one rank reports for all.
INSERT INTO progress (cluster, job, minute, rank, node, first_event_time, last_event_time, first_step, last_step, saved_step)
WITH number % 100 AS job, intDiv(number, 100) AS minutes, {end_s} - 60 * minutes AS second
SELECT if(job % 2 = 0, 'east', 'west'), toString(880001 + job), toDateTime(second), -1, concat('gpu-', toString(job * 16)),
  toDateTime(second), toDateTime(second + 59), 300000 - minutes * 6, 300005 - minutes * 6, NULL
FROM numbers({first}, {rows});

-- liveness: Every node, every minute, for three days.
INSERT INTO liveness (cluster, job, node, minute, first_event_time, last_event_time, last_step)
WITH number % {nodes} AS n, intDiv(number, {nodes}) AS minutes, {end_s} - 60 * minutes AS second
SELECT if(n % 2 = 0, 'east', 'west'), if(n < 512, '{big_job}', toString(880001 + intDiv(n, 16))), concat('gpu-', toString(n)),
  toDateTime(second), toDateTime(second), toDateTime(second + 55), NULL
FROM numbers({first}, {rows});

-- placements: Fifty jobs of many ranks.
INSERT INTO placements (cluster, job, rank, since, node, local_rank, gpu, world_size, pod)
WITH intDiv(number, {big_ranks}) AS job, number % {big_ranks} AS rank
SELECT 'east', toString({big_job} + job), rank, toDateTime({end_s} - 86400 * (job % 30)), concat('gpu-', toString(intDiv(rank, 8))),
  rank % 8, '', {big_ranks}, ''
FROM numbers({first}, {rows});

-- capacity_events: A queue over a month.
INSERT INTO capacity_events (event_id, event_time, kind, cluster, job, node, pod, count, rule, text)
SELECT leftPad(lower(hex(sipHash64(number, 2))), 16, '0'), toDateTime64({end_s} - (number / {all}) * 2592000, 9),
  ['submitted', 'queued', 'pending', 'started', 'preempted', 'idle'][number % 6 + 1], if(number % 2 = 0, 'east', 'west'),
  toString(880000 + intDiv(number, 6)), '', '', 1, 'capacity.submitted', concat('srun: job ', toString(number), ' queued and waiting for resources')
FROM numbers({first}, {rows});

-- measurements: Memory of the large job's ranks.
INSERT INTO measurements (cluster, name, job, node, rank, device, minute, smallest, largest)
WITH number % {big_ranks} AS rank, {end_s} - 60 * intDiv(number, {big_ranks}) AS second
SELECT 'east', 'gpu_memory_used_bytes', '{big_job}', concat('gpu-', toString(intDiv(rank, 8))), rank, '', toDateTime(second),
  4e10 + number, 4e10 + number
FROM numbers({first}, {rows});

-- temperatures: Temperatures of eight GPUs of each node, every five minutes of a day.
INSERT INTO measurements (cluster, name, job, node, rank, device, minute, smallest, largest)
WITH intDiv(number, 8) % {nodes} AS n, {end_s} - 300 * intDiv(number, 8 * {nodes}) AS second
SELECT if(n % 2 = 0, 'east', 'west'), 'gpu_celsius', '', concat('gpu-', toString(n)), -1, toString(number % 8), toDateTime(second),
  50 + rand64() % 30, 60 + rand64() % 30
FROM numbers({first}, {rows});

-- evidence_gaps: Gaps.
INSERT INTO evidence_gaps (gap_id, kind, cluster, node, job, source, begins, ends, records, text)
SELECT toString(number), ['shipper-silent', 'overwritten', 'records-lost', 'cut-off'][number % 4 + 1], 'east',
  concat('gpu-', toString(number % 2000)), '', '', toDateTime64({end_s} - (number / {all}) * 2592000, 9) AS begins, begins, number, 'lines are missing'
FROM numbers({first}, {rows});

-- deliveries: A notification of each incident.
INSERT INTO deliveries (notification_id, target, outcome, incident_id, revision, kind, reason, event_time, decided)
SELECT concat(incident_id, '-opened'), 'webhook', 'sent', incident_id, 1, 'opened', '', first_seen, first_seen FROM incidents;

-- pipeline_metrics: Two days of three workers.
INSERT INTO pipeline_metrics (time, process, name, labels, value)
WITH number % {series} AS series, {end_s} - 15 * intDiv(number, {series}) AS second
SELECT toDateTime(second), concat('host-', toString(series % 3), ':4711'),
  ['epicenter_records_total', 'epicenter_matches_total', 'epicenter_rule_seconds_total', 'epicenter_record_age_seconds',
   'epicenter_lag_records', 'epicenter_stored_rows_total'][intDiv(series, 3) % 6 + 1],
  map('source', concat('logs.raw/', toString(intDiv(series, 18))), 'rule', concat('nvidia.xid_', toString(intDiv(series, 18)))), 300000 - intDiv(number, {series})
FROM numbers({first}, {rows});
