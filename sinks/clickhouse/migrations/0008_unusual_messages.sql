-- How unusual each message is that no rule names: on how many ranks, in how many hours in which no incident of a job
-- began, and how many of its lines are evidence of an incident.
DROP VIEW IF EXISTS unnamed_messages;

CREATE VIEW IF NOT EXISTS unnamed_messages AS
SELECT
    cluster,
    fields['template'] AS template,
    uniqExact(match_id) AS lines,
    min(event_time) AS first_seen,
    max(event_time) AS last_seen,
    uniqExactIf(node, node != '') AS nodes,
    uniqExactIf(job, job != '') AS jobs,
    uniqExactIf((job, rank), isNotNull(rank)) AS ranks,
    uniqExactIf(
        toStartOfHour(event_time),
        (cluster, toStartOfHour(event_time)) NOT IN (
            SELECT cluster, toStartOfHour(first_seen) FROM incidents FINAL
            WHERE merged_into = '' AND severity IN ('error', 'critical')
        )
    ) AS healthy_hours,
    uniqExactIf(
        match_id, match_id IN (SELECT signal_id FROM signals WHERE class = 'unnamed-failure')
    ) AS evidence_lines,
    argMin(node, (event_time, match_id)) AS first_node,
    argMin(job, (event_time, match_id)) AS first_job,
    argMin(rank, (event_time, match_id)) AS first_rank,
    argMin(text, (event_time, match_id)) AS text
FROM matches
WHERE startsWith(rule, 'unnamed.')
GROUP BY cluster, template;
