"""What was found, for people and programs, and how far the run is."""
