"""The command line, one module a command group; the only place that prints."""
