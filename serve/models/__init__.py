"""Which models there are: how they come, go, come back, and who waits for them."""
