"""Whose lines a plain file holds: by its path, its first lines and its last."""
