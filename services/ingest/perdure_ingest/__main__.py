"""`python -m perdure_ingest`: run one ingest process."""

from __future__ import annotations

import sys

from perdure_runtime.process import run_service

from perdure_ingest.app import build
from perdure_ingest.config import IngestConfig


def main() -> int:
    """Run until told to stop and return the exit code; all settings come from PERDURE_*."""
    return run_service(IngestConfig, build)


if __name__ == "__main__":
    sys.exit(main())
