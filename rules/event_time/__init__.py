"""Event time: watermark, clock skew, and the order in which inputs are processed."""
