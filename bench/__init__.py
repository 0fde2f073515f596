"""Benches: variants run side by side, with ratios; nothing here is a test."""
