"""What may be rented, what each of it would do, and which of it is enough."""
