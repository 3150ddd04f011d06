"""Runs the sweeper: `python -m perdure_sweeper`."""

from __future__ import annotations

import sys

from perdure_runtime.process import run_service

from perdure_sweeper.app import build
from perdure_sweeper.config import SweeperConfig


def main() -> int:
    """Run the sweeper until it is told to stop; return the exit code."""
    return run_service(SweeperConfig, build)


if __name__ == "__main__":
    sys.exit(main())
