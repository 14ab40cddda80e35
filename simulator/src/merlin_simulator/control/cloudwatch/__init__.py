"""CloudWatch as far as endpoints need it: metrics, and what watches them."""
