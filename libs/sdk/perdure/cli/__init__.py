"""The `perdure` command: the API for people and scripts, and the commands of other packages."""
