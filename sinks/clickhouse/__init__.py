"""Incidents, matches and dead letters in ClickHouse: a server or the embedded engine, chosen by DSN."""
