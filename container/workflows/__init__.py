"""Processes of their own for what archives hold: tables are written there, workflows checked."""
