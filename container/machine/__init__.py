"""Asks the kernel and the C library, and tells them: memory, descriptors, ends of processes."""
