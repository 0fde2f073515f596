"""One reader for each place where logs are born on one machine."""
