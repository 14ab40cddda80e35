"""From an export to an autoscaled endpoint: push, put, up, status, invoke, rollback, down, render.

It knows AWS by boto3 alone, and an archive by ensemble_tools; it is no part of the images.
"""
