"""Every environment variable: its name, meaning, default and parser, and what they come to."""
