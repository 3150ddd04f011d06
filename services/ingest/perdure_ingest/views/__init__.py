"""Rows as the messages of the public API."""
