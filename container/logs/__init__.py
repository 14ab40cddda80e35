"""The log: lines as text or JSON, written by a thread of their own, so that nobody waits for it."""
