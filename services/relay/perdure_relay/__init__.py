"""Moves ready outbox rows to Redis, fairly and boundedly."""
