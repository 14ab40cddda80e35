"""Keeps what moto holds on disk: objects as files, and calls that are repeated at a start."""
