"""What operators get of the container: gauges, tritonserver's page, CloudWatch, captures."""
