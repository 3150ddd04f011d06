"""Chassis of every service; import its modules, the package itself imports nothing."""
