"""Compares the serving form with the executor: both in one tritonserver, asked the same."""
