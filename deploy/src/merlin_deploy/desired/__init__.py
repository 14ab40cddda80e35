"""What AWS should have for a CONFIG.toml, as requests. Nothing here asks AWS."""
