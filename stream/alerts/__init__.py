"""Notifications on their way: stored until the target accepts them, retried, and accounted for."""
