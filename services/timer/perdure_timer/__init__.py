"""Finds due timers and sends them as events."""
