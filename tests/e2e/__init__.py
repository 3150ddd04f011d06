"""A package, so that its tests share an engine that ends after the last of them."""
