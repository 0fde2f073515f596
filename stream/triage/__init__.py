"""One log or folder, read to its end, through the engine -> a report on each of its jobs."""
