"""The only way to AWS: calls, whole answers, errors in sentences."""
