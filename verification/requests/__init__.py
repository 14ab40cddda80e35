"""What the forms are asked: requests from a file, or made from columns and category files."""
