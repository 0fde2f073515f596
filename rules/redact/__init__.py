"""Credentials in text -> `[redacted:kind]`."""
