"""Silence told apart: which jobs stopped, who stopped first, and which silences mean nothing."""
