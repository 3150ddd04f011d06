"""Programs for developers; see README.md."""
