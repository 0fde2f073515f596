"""Text for a terminal: incidents, triage reports, dead letters, routes of alerts."""
