"""Figures of archives, from what was measured of them."""
