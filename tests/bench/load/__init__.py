"""What a step costs each process, the log and each table: where one PostgreSQL ends."""
