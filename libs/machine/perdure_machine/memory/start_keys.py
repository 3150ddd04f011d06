"""The start keys of the engine in memory (protocol p7)."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from perdure_runtime.errors import AlreadyExists, Reason

Asked = tuple[object, ...]
"""What makes a request this one and no other."""


@dataclass(slots=True)
class _Key:
    run_id: UUID | None
    asked: Asked | None
    expires_at: float | None = None


@dataclass(frozen=True, slots=True)
class StartAnswer:
    """Which run it is, and whether this request made it."""

    run_id: UUID
    workflow_version: int
    created: bool


class StartKeys:
    """Which run holds which key; `retention` is how long a key outlives its run, in seconds."""

    def __init__(self, retention: float) -> None:
        self._retention = retention
        self._keys: dict[tuple[str, str], _Key] = {}

    def claim(self, org: str, key: str, run_id: UUID, asked: Asked, now: float) -> UUID | None:
        """Take a key, or return the run that holds it and was asked for in the same way.

        Raises `AlreadyExists` where another request has it.
        """
        held = self._held(org, key, now)
        if held is None:
            self._keys[org, key] = _Key(run_id, asked)
            return None
        if held.asked == asked:
            return held.run_id
        raise AlreadyExists(
            f"the start key `{key}` belongs to run {held.run_id}, started by another request",
            reason=Reason.RUN_ALREADY_STARTED,
            metadata={"run_id": str(held.run_id)},
        )

    def forgo(self, org: str, key: str, now: float) -> UUID | None:
        """See that no run is started under the key any more; return the run that was, if any."""
        held = self._held(org, key, now)
        if held is not None:
            return held.run_id
        self._keys[org, key] = _Key(None, None, now + self._retention)
        return None

    def release(self, org: str, key: str | None) -> None:
        """Give back what a start has claimed that was refused."""
        self._keys.pop((org, key or ""), None)

    def close(self, org: str, key: str | None, run_id: UUID, now: float) -> None:
        """Let the key of a run that ended go when its retention is over."""
        held = self._keys.get((org, key or ""))
        if held is not None and held.run_id == run_id:
            held.expires_at = now + self._retention

    def keep(self, org: str, key: str | None, run_id: UUID) -> None:
        """Let the key of a run that was opened again last until it ends again."""
        held = self._keys.get((org, key or ""))
        if held is not None and held.run_id == run_id:
            held.expires_at = None

    def _held(self, org: str, key: str, now: float) -> _Key | None:
        held = self._keys.get((org, key))
        is_over = held is not None and held.expires_at is not None and held.expires_at < now
        return None if is_over else held
