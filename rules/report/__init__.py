"""Incident state -> `Incident`, the document that people and programs read."""
