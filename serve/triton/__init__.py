"""tritonserver: what it is asked, what it says, what it hosts, and what it may die of."""
