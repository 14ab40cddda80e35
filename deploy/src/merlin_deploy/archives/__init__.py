"""Archives in S3: put them, name them, delete those that no name needs."""
