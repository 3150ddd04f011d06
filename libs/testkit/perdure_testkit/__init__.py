"""Factories, providers, receivers and faults for tests; never imported by runtime code."""
