"""`python -m perdure_relay`: run one relay."""

from __future__ import annotations

import sys

from perdure_runtime.process import run_service

from perdure_relay.config import RelayConfig
from perdure_relay.service import build


def main() -> int:
    """Run the relay until it is told to stop; return the exit code."""
    return run_service(RelayConfig, build)


if __name__ == "__main__":
    sys.exit(main())
