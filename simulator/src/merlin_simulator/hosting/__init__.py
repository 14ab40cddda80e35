"""Endpoints that are hosted: their variants, and the instances of each, which come and go."""
