"""The Model Context Protocol server: what language models may ask."""
