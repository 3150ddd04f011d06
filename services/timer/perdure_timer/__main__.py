"""Runs the timer: `python -m perdure_timer`."""

from __future__ import annotations

import sys

from perdure_runtime.process import run_service

from perdure_timer.app import build
from perdure_timer.config import TimerConfig


def main() -> int:
    """Run the timer until it is told to stop; return the exit code."""
    return run_service(TimerConfig, build)


if __name__ == "__main__":
    sys.exit(main())
