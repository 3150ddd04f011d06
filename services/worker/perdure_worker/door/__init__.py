"""The door for handlers in any language, which poll for tasks from wherever they run."""
