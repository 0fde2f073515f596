"""Which rules a line fits: Hyperscan for whole batches, the standard `re` as the plain reference beside it."""
