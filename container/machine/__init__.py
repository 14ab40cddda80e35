"""What the kernel and the C library are told and asked: memory, descriptors, ends."""
