"""Requests and answers in JSON, as binary tensors and back. No I/O."""
