"""What is seen of the control plane as a whole: its page, each endpoint's page, and JSON."""
