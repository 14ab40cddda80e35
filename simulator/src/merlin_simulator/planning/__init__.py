"""What an endpoint would do, reckoned without a process: a discrete-event simulation of it."""
