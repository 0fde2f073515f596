"""Text for people: sanitized, humanized, Markdown."""
