"""One reader for each source of logs on a machine."""
