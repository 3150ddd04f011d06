"""Watching runs: one wake-up and one query for all watched runs together (p12)."""
