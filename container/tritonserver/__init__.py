"""tritonserver as a process: found, told how to run, supervised, and cleared up after."""
