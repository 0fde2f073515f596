"""Which signal of an incident explains the others, and why."""
