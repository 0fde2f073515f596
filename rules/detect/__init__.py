"""Windows over event time: what many matches together say, and what is missing among them."""
