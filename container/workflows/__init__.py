"""Processes of their own for what archives hold: compiled workflows' tables are written there."""
