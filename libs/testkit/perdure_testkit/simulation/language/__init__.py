"""Random definitions over the whole language, and what they come to in the language's own words."""
