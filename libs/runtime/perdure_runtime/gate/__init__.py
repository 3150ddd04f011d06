"""The gate of a public door: who calls, whether they may, and how often."""
