"""Checks a request before anything is done for it; everything wrong is said at once, by field."""

from __future__ import annotations

from collections.abc import Collection

from google.protobuf.duration_pb2 import Duration

from perdure_runtime.errors import FieldViolation, InvalidArgument


class Check:
    """Collects what is wrong with one request.

    Each method checks one field and returns its value in the form that is worked with; after
    `refuse` has returned, all of them are good.
    """

    def __init__(self) -> None:
        self._found: list[FieldViolation] = []
        self._refusals: list[InvalidArgument] = []

    def refuse(self) -> None:
        """Raise InvalidArgument with every violation, if there is any."""
        if not self._found:
            return
        refusals = self._refusals
        # A reason of its own only if there is nothing else to say.
        if len(refusals) == len(self._found) == 1:
            raise refusals[0]
        first = self._found[0]
        raise InvalidArgument(
            f"the request has {len(self._found)} problem(s): {first.field}: {first.description}",
            violations=self._found,
        )

    def note(self, refusal: InvalidArgument) -> None:
        """Note all that a refusal lists; what is wrong alone is told with its reason."""
        self._found.extend(refusal.violations)
        self._refusals.append(refusal)

    def add(self, field: str, description: str) -> None:
        """Note a violation."""
        self._found.append(FieldViolation(field, description))

    def text(self, field: str, value: str, *, longest: int, required: bool = False) -> str:
        """Check a text's length in characters and that it holds no NUL (F102)."""
        if required and not value:
            self.add(field, "is required")
        if len(value) > longest:
            self.add(field, f"has {len(value)} characters; at most {longest} are allowed")
        if "\x00" in value:
            self.add(field, "holds a NUL character")
        return value

    def one_of(self, field: str, value: str, words: Collection[str]) -> str:
        """Check that a text is one of some words, or empty."""
        if value and value not in words:
            self.add(field, f"is none of {', '.join(words)}")
        return value

    def number(self, field: str, value: int, *, least: int, most: int) -> int:
        """Check that a number lies between two bounds, both included."""
        if not least <= value <= most:
            self.add(field, f"must lie between {least} and {most}, is {value}")
        return value

    def seconds(
        self, field: str, message: Duration | None, *, longest: float, words: str
    ) -> float | None:
        """Check a length of time up to `longest` seconds, in `words`; absent is None."""
        if message is None:
            return None
        seconds = message.seconds + message.nanos / 1e9
        if not 0 <= message.nanos < 10**9 or not 0 <= seconds <= longest:
            self.add(field, f"is not between 0 and {words}")
            return None
        return seconds
