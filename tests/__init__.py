"""Tests: unit, scenarios, properties, integration, chaos and bench."""
