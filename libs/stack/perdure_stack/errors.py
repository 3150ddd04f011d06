"""The one error that this library shows to people.

``StackError`` says what is wrong, where, and what to do about it, on three lines.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self


class StackError(Exception):
    """A condition of this machine that a person can put right.

    Attributes are plain text: ``what`` happened, ``where`` (a path, port, URL or setting), and
    what to ``do_this`` about it.
    """

    def __init__(self, what: str, where: str, do_this: str) -> None:
        super().__init__(what, where, do_this)
        self.what = what
        self.where = where
        self.do_this = do_this

    def __str__(self) -> str:
        return f"what: {self.what}\nwhere: {self.where}\ndo this: {self.do_this}"

    @classmethod
    def port_busy(cls, owner: str, port: int, setting: str) -> Self:
        """Build the error of a port that ``owner`` needs and another process listens on."""
        return cls(
            f"port {port}, which {owner} listens on, is taken by another process",
            f"127.0.0.1:{port}",
            f"stop the process that has it, or {setting}",
        )

    @classmethod
    def failed(cls, owner: str, reason: str, log: Path, tail: Sequence[str]) -> Self:
        """Build the error of a process that ended or stayed unready; ``tail`` is its last log."""
        said = "".join(f"\n  | {line}" for line in tail) or " (it logged nothing)"
        return cls(
            f"{owner} failed: {reason}",
            str(log),
            f"read the log and put right what it names; its last lines:{said}",
        )

    @classmethod
    def module_missing(cls, module: str) -> Self:
        """Build the error of a part of Perdure that this Python environment does not have."""
        return cls(
            f"the module {module} is not installed in this environment",
            sys.executable,
            "run `make setup` and use the Python below .venv",
        )
