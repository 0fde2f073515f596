"""Signals -> incidents: one failure is one incident, however many ranks report it."""
