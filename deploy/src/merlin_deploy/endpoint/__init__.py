"""Bring an endpoint up, roll it back, take it down."""
