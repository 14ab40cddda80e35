"""The control plane: AWS's services for unmodified clients, on one port."""
