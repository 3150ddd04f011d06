"""Which of its pollers gRPC uses is said before it is imported."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = "import sys, os, perdure_runtime; print('grpc' in sys.modules, os.environ[sys.argv[1]])"
VARIABLE = "GRPC_EXPERIMENTS"


def seen(environ: dict[str, str]) -> str:
    others = {name: value for name, value in os.environ.items() if name != VARIABLE}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, VARIABLE],
        env=others | environ, capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip


def test_grpc_is_told_how_to_poll_before_it_is_imported() -> None:
    assert seen({}) == "False -event_engine_client,-event_engine_listener"


@pytest.mark.parametrize("chosen", ["", "event_engine_fork"])
def test_an_operators_choice_of_poller_stands(chosen: str) -> None:
    assert seen({VARIABLE: chosen}) == f"False {chosen}".strip()
