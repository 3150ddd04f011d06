"""One port over both engines, in memory and on PostgreSQL, so that one suite tests both."""
