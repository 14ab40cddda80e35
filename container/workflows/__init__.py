"""Compiled workflows' tables: processes of their own write them, and a later load finds them."""
