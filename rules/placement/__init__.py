"""Which job runs on which node, and which rank on which GPU."""
