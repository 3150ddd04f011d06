"""Runs the coordinator: `python -m perdure_coordinator`."""

import sys

from perdure_runtime.process import run_service

from perdure_coordinator.app import build
from perdure_coordinator.config import CoordinatorConfig

if __name__ == "__main__":
    sys.exit(run_service(CoordinatorConfig, build))
