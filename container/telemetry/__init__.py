"""Tells operators of the container itself: its gauges, tritonserver's page, CloudWatch."""
