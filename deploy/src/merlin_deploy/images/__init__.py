"""Push an image from this machine's Docker engine to ECR."""
