"""Checks a request before anything is sent for it; everything wrong is said at once, by field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from uuid import UUID

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from perdure_machine.expressions.durations import MAX_SECONDS
from perdure_machine.payload import check_payload
from perdure_runtime.errors import FieldViolation, InvalidArgument, Reason
from perdure_runtime.gate import checking

from perdure_ingest import limits

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_FIRST_INSTANT = datetime(1, 1, 1, tzinfo=UTC).timestamp()
_LAST_INSTANT = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()
_NOT_NEGATIVE = "must not be negative"


class Check(checking.Check):
    """Collects what is wrong with one request of ingest."""

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
        return self.seconds(field, message, longest=MAX_SECONDS, words="ten years")

    def _payload(self, field: str, value: bytes) -> None:
        try:
            check_payload(value, field, limits.MAX_PAYLOAD_BYTES, limits.MAX_PAYLOAD_DEPTH)
        except InvalidArgument as refusal:
            self.note(refusal)

    def _too_large(self, field: str, size: int, limit: int) -> None:
        problem = f"holds {size} bytes; at most {limit} are allowed"
        self.note(
            InvalidArgument(
                f"{field} {problem}",
                reason=Reason.PAYLOAD_TOO_LARGE,
                metadata={"limit": str(limit), "size": str(size)},
                violations=[FieldViolation(field, problem)],
            )
        )
