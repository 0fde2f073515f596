"""Connections: TLS errors in one line, and bearer tokens."""
