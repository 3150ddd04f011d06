"""What this package brings to the command line of Perdure: ``perdure dev``."""

from collections.abc import Sequence

from perdure_stack.cli import main


def dev(arguments: Sequence[str]) -> int:
    """Run a stack until Ctrl-C; takes what ``python -m perdure_stack up`` takes."""
    return main(["up", *arguments])
