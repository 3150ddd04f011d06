"""Events applied to runs: lock, load, decide, write, in one transaction (protocol p1)."""
