"""How far what came is from what the workflows were fitted to."""
