"""The way to AWS: clients, the one place where something is changed, errors in sentences."""
