"""Tests against a real Kafka broker and a real ClickHouse engine."""
