"""Who is told what, and when: labels, routes, groups, what mutes a message, and what a machine may do. Pure."""
