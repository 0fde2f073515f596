"""Rules of node-problem-detector -> drafts of rules, with a line for everything that is lost."""
