"""What is in the images, as an SBOM: told from the locks that the Dockerfile installs them from."""
