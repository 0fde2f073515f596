"""Kafka <-> core, the embedded runner and the command line."""
