"""A Merlin graph as Triton ensembles: who reads what, what waits for what, and the protobufs."""
