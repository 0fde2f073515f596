"""Rules of node-problem-detector -> drafts of ours, with a line for everything that is lost on the way."""
