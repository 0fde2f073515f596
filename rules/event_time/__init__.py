"""Event time: how far it has come, how far clocks differ, and in which order inputs are taken."""
