"""Run ``python -m perdure_stack``."""

import sys

from perdure_stack.cli import main

sys.exit(main())
