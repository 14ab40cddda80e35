"""Requests to the forms: from a file, or made from columns and category files."""
