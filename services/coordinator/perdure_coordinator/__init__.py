"""The only writer of run state and of the catalogue."""
