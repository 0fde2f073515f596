"""Telling people: one module for each way."""
