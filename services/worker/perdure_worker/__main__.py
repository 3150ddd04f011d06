"""Runs a worker: `python -m perdure_worker`."""

from __future__ import annotations

import sys

from perdure_runtime.process import run_service

from perdure_worker.app import build
from perdure_worker.config import WorkerConfig


def main() -> int:
    """Run the worker until it is told to stop; return the exit code."""
    return run_service(WorkerConfig, build)


if __name__ == "__main__":
    sys.exit(main())
