"""Trouble with Kafka."""

CORRUPT_BATCH = "corrupt batch"
