"""Notifications on their way: kept until their target has them, tried again, accounted for."""
