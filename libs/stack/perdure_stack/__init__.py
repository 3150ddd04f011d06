"""Embedded PostgreSQL and Valkey and a supervisor of the six services, for dev and tests."""
