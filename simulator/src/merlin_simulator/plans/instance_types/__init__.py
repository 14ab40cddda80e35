"""What an instance of AWS has, and what it costs where somebody says it."""
