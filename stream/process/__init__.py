"""A process of ours: its logs, its shutdown, its health."""
