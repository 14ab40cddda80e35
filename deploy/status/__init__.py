"""What an endpoint does now, in one screen: gathered, reckoned, told."""
