"""PostgreSQL: named SQL, migration runner, event application, queries."""
