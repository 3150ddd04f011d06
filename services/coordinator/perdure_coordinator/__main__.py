"""Runs the coordinator: `python -m perdure_coordinator`."""

from __future__ import annotations

import sys

from perdure_runtime.process import run_service

from perdure_coordinator.app import build
from perdure_coordinator.config import CoordinatorConfig


def main() -> int:
    """Run the coordinator until it is told to stop; return the exit code."""
    return run_service(CoordinatorConfig, build)


if __name__ == "__main__":
    sys.exit(main())
