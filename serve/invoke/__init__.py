"""One invocation: its headers, what it says of itself, its way to tritonserver and back."""
