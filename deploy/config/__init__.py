"""CONFIG.toml: what an endpoint is to be, each choice with its reason."""
