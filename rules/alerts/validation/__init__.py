"""Every problem in `alerts.yaml` at once, with its line and what to write instead."""
