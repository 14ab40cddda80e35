"""What is asked of the endpoint: drawn from laws, or known from a trace or CloudWatch."""
