"""Windows over event time: what many matches show together, and what is missing among them."""
