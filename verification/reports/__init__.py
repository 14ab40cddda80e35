"""Reports for people and programs, and how far the run is."""
