"""Rules of other tools -> drafts of ours, with a line for everything that is lost on the way."""
