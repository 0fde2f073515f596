"""The types that travel between the hops; every time is an integer of nanoseconds since the epoch, UTC.

None of them can be part of a ring, so the garbage collector passes over those that there are many of (`gc=False`).
"""
