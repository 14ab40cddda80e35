"""What an endpoint does now: collect it from AWS, compare it with CONFIG.toml, show it."""
