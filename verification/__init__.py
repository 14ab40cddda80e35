"""verify, compare and drift: forms, archives and counts beside what they are compared with."""
