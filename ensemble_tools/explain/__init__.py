"""An archive as text, JSON and pictures: the graph, its serving form, and both side by side."""
