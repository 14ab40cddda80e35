"""CONFIG.toml: what an endpoint should be, each choice with its reason."""
