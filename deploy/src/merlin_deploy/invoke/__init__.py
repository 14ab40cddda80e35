"""Send a request to the endpoint, and show the answer."""
