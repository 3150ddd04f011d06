"""Client, handlers and command line of Perdure."""
