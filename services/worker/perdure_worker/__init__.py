"""Executes steps under leases; has no database credentials."""
