"""What runs: the process tree inside the image."""
