"""Scenarios: a story of a failure in YAML, held against what the core makes of it."""
