"""Whose turn it is on a stream, kept beside it so that another relay goes on where one stopped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Turn:
    """The org whose turn it is, and how many rows of it were sent; at first nobody's."""

    org: str = ""
    served: int = 0

    @classmethod
    def decode(cls, kept: bytes | None) -> Self:
        """Read what `encode` wrote; what cannot be read, or is gone, is nobody's turn."""
        served, _, org = (kept or b"").decode(errors="replace").partition(":")
        return cls(org, int(served)) if served.isdecimal() else cls()

    def encode(self) -> bytes:
        """Return the form that Redis keeps."""
        return f"{self.served}:{self.org}".encode()
