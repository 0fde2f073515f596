"""The checks of `epicenter check`: a module for each subject, with pure functions from collected facts to findings."""
