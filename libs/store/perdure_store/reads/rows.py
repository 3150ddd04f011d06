"""The rows that the doors show, as values. Payloads are the bytes that were stored (R12)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run without what hangs on it. `tags` and `error` are JSON; input is empty in lists."""

    run_id: UUID
    org: str
    workflow: str
    workflow_version: int
    status: str
    error: bytes | None
    start_key: str | None
    tags: bytes
    priority: int
    created_at: datetime
    ended_at: datetime | None
    deadline_at: datetime | None
    start_at: datetime | None
    begun_at: datetime | None
    exclusive_key: str | None
    waits_for: UUID | None
    revision: int
    traceparent: str | None
    parent_run: UUID | None = None
    parent_step: int | None = None
    awaited_children: int = 0
    paused: bool = False
    ending: str | None = None
    uncompensated: int = 0
    input: bytes = b""
    output: bytes | None = None


@dataclass(frozen=True, slots=True)
class StepRow:
    """A step. `worker` holds it now, what it waits for is due `due_at`, `child_run` its child.

    From `generation` to `failed` they are the counters of a step that holds a sub-graph, None for
    any other. `awaited` is the signal that it waits for, `awaited_key` the key by which that may be
    sent.
    """

    step: int
    node: str
    scope: str
    kind: str
    status: str
    lane: str | None
    owner: str | None
    failures: int
    losses: int
    fence: int
    worker: str | None
    input: bytes | None
    output: bytes | None
    error: bytes | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    due_at: datetime | None
    deadline_at: datetime | None
    child_run: UUID | None = None
    generation: int | None = None
    total: int | None = None
    begun: int | None = None
    ended: int | None = None
    failed: int | None = None
    awaited: str | None = None
    awaited_key: str | None = None
    parked_on: str | None = None
    compensates: int | None = None


@dataclass(frozen=True, slots=True)
class ScopeRow:
    """A scope of a step; payloads and error are JSON."""

    path: str
    index: int
    status: str
    item: bytes | None
    carry: bytes | None
    output: bytes | None
    error: bytes | None


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """A finished acquisition of a step."""

    step: int
    fence: int
    worker: str
    outcome: str
    error: bytes | None
    started_at: datetime
    ended_at: datetime


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """What a node gave away under a name; the value is left out where payloads are."""

    name: str
    node: str
    value: bytes | None
    published_at: datetime


@dataclass(frozen=True, slots=True)
class EffectRow:
    """An outside effect."""

    key: str
    step: int
    kind: str
    status: str
    calls: int
    begun_at: datetime
    settled_at: datetime | None


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """A run with the steps of one scope, their attempts and effects, all as of one moment.

    Payloads of steps are there only if they were asked for.
    """

    run: RunRow
    steps: tuple[StepRow, ...]
    attempts: tuple[AttemptRow, ...]
    effects: tuple[EffectRow, ...]
    published: tuple[PublishedRow, ...] = ()


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """A line of a run's history; step, node and scope are None for the run as a whole."""

    seq: int
    at: datetime
    kind: str
    step: int | None
    node: str | None
    scope: str | None
    fence: int | None
    details: bytes | None


@dataclass(frozen=True, slots=True)
class WorkflowRow:
    """A published version; the document is empty in lists."""

    name: str
    version: int
    digest: bytes
    published_at: datetime
    document: bytes = b""
