"""What AWS is to have for a configuration: requests, made without asking anybody."""
