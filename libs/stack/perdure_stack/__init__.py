"""Embedded PostgreSQL and Valkey and a supervisor of the six services, for development and tests."""
