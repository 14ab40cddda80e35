"""What `python -m simulator plan` does: from files to settings, from outcomes to answers."""
