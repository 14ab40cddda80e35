"""What moto holds, kept on disk: objects' bytes as files, calls that are made again at a start."""
