"""An image's way from this machine's Docker engine to ECR."""
