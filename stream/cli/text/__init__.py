"""How things look on a terminal: incidents, triage reports, dead letters, routes of alerts."""
