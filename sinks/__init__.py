"""Rows and messages leave."""
