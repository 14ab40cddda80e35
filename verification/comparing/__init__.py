"""The forms of one archive, and whether their answers are the same."""
