"""Sources of generated Python steps: each is read as text, filled in, and published as model.py."""
