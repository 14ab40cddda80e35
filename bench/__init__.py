"""Side-by-side measurements of the container, and the report they write."""
