"""Tools for people who write rules: lint, trial, import, evaluation."""
