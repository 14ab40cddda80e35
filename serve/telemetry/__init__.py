"""What operators are told: what was counted, what one invocation came to."""
