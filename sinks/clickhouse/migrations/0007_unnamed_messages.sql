-- Messages that look like failures and that no rule names, one row a template. Lines written twice count once.
CREATE VIEW IF NOT EXISTS unnamed_messages AS
SELECT
    cluster,
    fields['template'] AS template,
    uniqExact(match_id) AS lines,
    min(event_time) AS first_seen,
    max(event_time) AS last_seen,
    uniqExactIf(node, node != '') AS nodes,
    uniqExactIf(job, job != '') AS jobs,
    argMin(node, (event_time, match_id)) AS first_node,
    argMin(job, (event_time, match_id)) AS first_job,
    argMin(rank, (event_time, match_id)) AS first_rank,
    argMin(text, (event_time, match_id)) AS text
FROM matches
WHERE class = 'unnamed-failure'
GROUP BY cluster, template;
