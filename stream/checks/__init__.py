"""What `epicenter check` looks at: a module a subject, pure functions from what was seen to findings."""
