"""The pure core: what a line means, and which earlier line caused it. No I/O, no clock, no randomness."""
