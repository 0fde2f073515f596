"""RawRecord -> LogEvent, pure: envelopes, prefixes and timestamps."""
