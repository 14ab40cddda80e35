"""Requests to the forms: from a file or a capture, or made from columns and category files."""
