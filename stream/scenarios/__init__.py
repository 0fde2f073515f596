"""Scenarios: a story of a failure in YAML, compared with the incidents of the core."""
