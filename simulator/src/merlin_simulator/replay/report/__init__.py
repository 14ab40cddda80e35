"""What a replay tells: a line while it runs, figures, a summary and a page."""
