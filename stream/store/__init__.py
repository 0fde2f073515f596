"""Questions to the store, and the thread that asks them."""
