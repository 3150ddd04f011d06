"""The doors from outside: checks, limits, reads; owns no state."""
