"""Is the serving form the executor? Both in one tritonserver, asked the same, compared."""
