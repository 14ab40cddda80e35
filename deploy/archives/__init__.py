"""Archives in S3: where each lies, and which one a name means."""
