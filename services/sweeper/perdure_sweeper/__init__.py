"""Finds what stopped moving and sends it as events; makes partitions."""
