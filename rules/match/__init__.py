"""Which rules match a line: Hyperscan for whole batches, and the standard `re` as reference."""
