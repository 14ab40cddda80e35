"""One instance: which models it holds, what leaves when memory runs short, and its container."""
