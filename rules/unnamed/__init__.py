"""Failures that no rule names: what their lines have in common, and how often they come."""
