"""Hypothesis without randomness: the same examples in every run."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "epicenter",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("epicenter")
