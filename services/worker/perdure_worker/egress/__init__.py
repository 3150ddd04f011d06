"""The way out: whom a worker may call, and over which connections."""
