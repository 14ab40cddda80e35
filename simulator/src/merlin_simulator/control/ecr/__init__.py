"""ECR's images, where a registry of this machine stands for its hosts: they are the registry's."""
