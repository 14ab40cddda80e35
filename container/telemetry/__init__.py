"""What operators are told of the container itself: its gauges, tritonserver's page, CloudWatch."""
