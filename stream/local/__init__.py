"""One machine: files in, embedded store and page out, no server."""
