"""epicenter: which failure of a GPU cluster came first. The four folders are links to those at the top."""
