"""Evidence packs: an incident's evidence for people and programs, bounded in size, each claim with a reference."""
