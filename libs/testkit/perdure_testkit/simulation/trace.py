"""What happened in a simulation, line by line, with a digest that two runs of a seed share."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from hashlib import sha256

LAST = 60
"""Lines that are kept for a report."""


class Trace:
    """Takes lines; keeps the last of them and the digest of all."""

    def __init__(self) -> None:
        self.lines = 0
        self._last: deque[str] = deque(maxlen=LAST)
        self._digest = sha256()

    def say(self, now: float, who: str, what: str) -> None:
        """Add a line."""
        line = f"{now:10.3f} {who:<12} {what}"
        self.lines += 1
        self._last.append(line)
        self._digest.update(line.encode() + b"\n")

    @property
    def last(self) -> Sequence[str]:
        """The last lines."""
        return tuple(self._last)

    @property
    def digest(self) -> str:
        """A digest of all lines."""
        return self._digest.hexdigest()
