"""Who is notified of what, and when: labels, routes, groups, mutes, and the action that a machine may take."""
