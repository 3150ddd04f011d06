"""The pure state machine: definitions, expressions, decisions, in-memory store."""
