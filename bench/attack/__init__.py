"""A hostile week in minutes: epicenter's own commands, attacked from outside by a stranger: `make attack`.

Each story is a module with its `ATTACKS`; `arena` runs the commands; `python -m bench.attack` prints what broke.
"""
