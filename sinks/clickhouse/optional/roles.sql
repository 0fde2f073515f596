-- Workers write what they find, in these tables and in no other; they read which migrations ran, and what people said
-- about incidents, because that mutes alerts. The view that counts matches reads them and writes their counts.
CREATE ROLE IF NOT EXISTS epicenter_worker;

GRANT INSERT ON {database}.incidents, INSERT ON {database}.incident_revisions, INSERT ON {database}.matches,
    INSERT ON {database}.match_rates, INSERT ON {database}.signals, INSERT ON {database}.liveness,
    INSERT ON {database}.progress, INSERT ON {database}.placements, INSERT ON {database}.job_states,
    INSERT ON {database}.capacity_events, INSERT ON {database}.measurements,
    INSERT ON {database}.evidence_gaps, INSERT ON {database}.deliveries, INSERT ON {database}.pipeline_metrics, INSERT ON {database}.dead_letters TO epicenter_worker;

GRANT SELECT ON {database}.schema_migrations, SELECT ON {database}.matches, SELECT ON {database}.silences,
    SELECT ON {database}.acknowledgements TO epicenter_worker;

-- The page, and the commands that people use: they see everything, and write what people say: verdicts, silences, who
-- takes care, and which dead letters were sent again.
CREATE ROLE IF NOT EXISTS epicenter_page;

GRANT SELECT ON {database}.* TO epicenter_page;

GRANT INSERT ON {database}.feedback, INSERT ON {database}.silences, INSERT ON {database}.acknowledgements,
    INSERT ON {database}.dead_letter_replays TO epicenter_page;

-- Grafana only reads. Its plugin sets max_execution_time with every query, which has to stay possible in readonly mode:
-- for that the server needs settings_constraints_replace_previous, which its own config.xml turns on.
CREATE ROLE IF NOT EXISTS epicenter_grafana;

GRANT SELECT ON {database}.* TO epicenter_grafana;

CREATE SETTINGS PROFILE IF NOT EXISTS epicenter_grafana
    SETTINGS readonly = 1, max_execution_time = 60 MAX 120 CHANGEABLE_IN_READONLY, max_memory_usage = 4000000000
    TO epicenter_grafana;

-- Makes and changes the tables, once for each new version. It can't read what is in them, but for its own list, and for
-- matches and their counts, since whoever makes a view needs what the view does.
CREATE ROLE IF NOT EXISTS epicenter_migrate;

GRANT CREATE DATABASE, CREATE TABLE, CREATE VIEW, DROP VIEW, ALTER TABLE ON {database}.* TO epicenter_migrate;

GRANT SELECT, INSERT ON {database}.schema_migrations TO epicenter_migrate;

GRANT SELECT ON {database}.matches, SELECT ON {database}.match_rates, INSERT ON {database}.match_rates
    TO epicenter_migrate;
