"""The doors from outside: identify, check, limit, read; whatever changes is the coordinator's."""
