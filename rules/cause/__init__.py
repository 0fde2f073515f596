"""Root cause: which signal of an incident explains the others, and why."""
