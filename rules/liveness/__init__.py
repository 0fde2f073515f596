"""What missing logs mean: which jobs stopped, which rank or node stopped first, and when missing logs are harmless."""
