"""`python -m perdure_store`: run the migrations, show what is applied, write schema.sql."""

from __future__ import annotations

import sys

from perdure_store.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
