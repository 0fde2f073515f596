"""The outside world becomes `LogEvent`: which line, from which node, job and rank, at what event time."""
