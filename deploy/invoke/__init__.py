"""One request to the endpoint, and its answer in words."""
