"""What is handed over to machines and people: an incident's evidence, bounded, each claim with a reference."""
