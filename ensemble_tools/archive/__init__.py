"""What an archive holds: its files, models, graphs and pickles, read without running any of it."""
