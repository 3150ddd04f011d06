"""Checks a request before anything is sent for it; everything wrong is said at once, by field."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from uuid import UUID

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from perdure_machine.expressions.durations import MAX_SECONDS
from perdure_machine.payload import check_payload
from perdure_runtime.errors import FieldViolation, InvalidArgument, Reason

from perdure_ingest import limits

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_FIRST_INSTANT = datetime(1, 1, 1, tzinfo=UTC).timestamp()
_LAST_INSTANT = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()
_NOT_NEGATIVE = "must not be negative"


class Check:
    """Collects what is wrong with one request.

    Each method checks one field and returns its value in the form that is worked with; after
    `refuse` has returned, all of them are good.
    """

    def __init__(self) -> None:
        self._found: list[FieldViolation] = []
        self._payload_refusals: list[InvalidArgument] = []

    def refuse(self) -> None:
        """Raise InvalidArgument with every violation, if there is any."""
        if not self._found:
            return
        refusals = self._payload_refusals
        # A reason of its own only if there is nothing else to say.
        if len(refusals) == len(self._found) == 1:
            raise refusals[0]
        first = self._found[0]
        raise InvalidArgument(
            f"the request has {len(self._found)} problem(s): {first.field}: {first.description}",
            violations=self._found,
        )

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

    def run_id(self, field: str, value: str) -> UUID:
        """Check the id of a run: required (F056), and a UUID in its usual form."""
        if not value:
            self.add(field, "is required")
        elif not _UUID.fullmatch(value):
            self.add(field, "is not a UUID in the form 01234567-89ab-cdef-0123-456789abcdef")
        else:
            return UUID(value)
        return UUID(int=0)

    def payload(self, field: str, value: bytes) -> bytes:
        """Check JSON's size, depth, encoding and form; empty stands for its default."""
        if value:
            self._payload(field, value)
        return value

    def document(self, field: str, value: bytes) -> bytes:
        """Check the size of a definition and that it is UTF-8; the rest is for its reader."""
        if not value:
            self.add(field, "is required")
        if len(value) > limits.MAX_DOCUMENT_BYTES:
            self._too_large(field, len(value), limits.MAX_DOCUMENT_BYTES)
        try:
            value.decode()
        except UnicodeDecodeError as error:
            self.add(field, f"is not UTF-8 at byte {error.start}")
        return value

    def tags(self, field: str, value: Mapping[str, str]) -> dict[str, str]:
        """Check labels: their number, and each key and value."""
        if len(value) > limits.MAX_TAGS:
            self.add(field, f"has {len(value)} entries; at most {limits.MAX_TAGS} are allowed")
        for key in sorted(value):
            place = f"{field}[{key[: limits.MAX_TAG_KEY]!r}]"
            self.text(f"{place} key", key, longest=limits.MAX_TAG_KEY, required=True)
            self.text(place, value[key], longest=limits.MAX_TAG_VALUE)
        return dict(value)

    def number(self, field: str, value: int, *, least: int, most: int) -> int:
        """Check that a number lies between two bounds, both included."""
        if not least <= value <= most:
            self.add(field, f"must lie between {least} and {most}, is {value}")
        return value

    def version(self, field: str, value: int) -> int:
        """Check a version; 0 is the latest."""
        if value < 0:
            self.add(field, _NOT_NEGATIVE)
        return value

    def page_size(self, field: str, value: int, *, default: int) -> int:
        """Return how many to answer with at most: the default for 0, and never over the limit."""
        if value < 0:
            self.add(field, _NOT_NEGATIVE)
        return min(value or default, limits.MAX_PAGE)

    def instant(self, field: str, message: Timestamp | None) -> datetime | None:
        """Check an instant between the years 1 and 9999; absent is None."""
        if message is None:
            return None
        if not 0 <= message.nanos < 10**9 or not _FIRST_INSTANT <= message.seconds <= _LAST_INSTANT:
            self.add(field, "is not an instant between the years 1 and 9999")
            return None
        return message.ToDatetime(UTC)

    def duration(self, field: str, message: Duration | None) -> float | None:
        """Check a length of time up to ten years; absent is None, else seconds."""
        if message is None:
            return None
        seconds = message.seconds + message.nanos / 1e9
        if not 0 <= message.nanos < 10**9 or not 0 <= seconds <= MAX_SECONDS:
            self.add(field, "is not between 0 and ten years")
            return None
        return seconds

    def _payload(self, field: str, value: bytes) -> None:
        try:
            check_payload(value, field, limits.MAX_PAYLOAD_BYTES, limits.MAX_PAYLOAD_DEPTH)
        except InvalidArgument as refusal:
            self._found.extend(refusal.violations)
            self._payload_refusals.append(refusal)

    def _too_large(self, field: str, size: int, limit: int) -> None:
        problem = f"holds {size} bytes; at most {limit} are allowed"
        self.add(field, problem)
        self._payload_refusals.append(
            InvalidArgument(
                f"{field} {problem}",
                reason=Reason.PAYLOAD_TOO_LARGE,
                metadata={"limit": str(limit), "size": str(size)},
                violations=[FieldViolation(field, problem)],
            )
        )
