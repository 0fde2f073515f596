"""Many records as columns, so that no object is made for a quiet line."""
