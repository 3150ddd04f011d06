"""The absence checks: what has stopped without an error, in words, with what to do about it."""
