"""What this package brings to the command line: `perdure migrate`, `epoch`, `keys bootstrap`."""

from __future__ import annotations

from collections.abc import Sequence

from perdure_store.cli import main


def migrate(arguments: Sequence[str]) -> int:
    """Bring the database to the newest schema; see `python -m perdure_store migrate`."""
    return main(["migrate", *arguments])


def epoch(arguments: Sequence[str]) -> int:
    """Say what a restored database may have forgotten; see `python -m perdure_store epoch`."""
    return main(["epoch", *arguments])


def bootstrap_keys(arguments: Sequence[str]) -> int:
    """Make the first key of an org; see `python -m perdure_store keys`."""
    return main(["keys", "bootstrap", *arguments])
