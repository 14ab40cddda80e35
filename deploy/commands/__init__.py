"""One file for each command; they print, and know how it went."""
