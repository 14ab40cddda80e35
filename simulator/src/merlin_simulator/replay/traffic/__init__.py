"""What a replay sends: copies of archives, who is asked when, and the requests."""
