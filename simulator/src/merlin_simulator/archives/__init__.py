"""Where archives come from, and how they come to lie extracted on an instance."""
