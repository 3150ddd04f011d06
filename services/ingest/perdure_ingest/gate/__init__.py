"""The gate: who calls, whether they may, and how often."""
