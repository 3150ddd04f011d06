"""What a migration asks for, what it tells of a run, and how a run's event carries it.

A migration moves unfinished runs from one version of their workflow to another. Each run is moved
by an event of its own, a timer of kind `migrate` whose details hold the whole plan (protocol p5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

import msgspec


class OnRemoved(StrEnum):
    """What is done about a step that stands unfinished on a node that the new version lacks."""

    REFUSE = "refuse"  # the run stays on its version
    CANCEL = "cancel"  # the step ends as cancelled and the run goes on, unless it runs just now


class OnPassed(StrEnum):
    """What is done about a node that has not ended, where one that needs it has begun already."""

    REFUSE = "refuse"  # the run stays on its version
    SKIP = "skip"  # it ends as skipped, unless something else that has not begun needs it
    RUN = "run"  # it runs all the same, late


class MigrationOutcome(StrEnum):
    """What became of one run of a migration."""

    PENDING = "pending"  # its event was not delivered yet
    MIGRATED = "migrated"  # it is on the new version, by this migration or another
    REFUSED = "refused"  # it stays on its version, for reasons that are told
    ENDED = "ended"  # it ended before its turn came


class Code(StrEnum):
    """Why a run cannot be moved."""

    RUN_ENDED = "RUN_ENDED"
    RUN_FAILING = "RUN_FAILING"
    RUN_COMPENSATING = "RUN_COMPENSATING"
    RUN_REOPENING = "RUN_REOPENING"
    OTHER_VERSION = "OTHER_VERSION"
    INPUT_INVALID = "INPUT_INVALID"
    NODE_REMOVED = "NODE_REMOVED"
    STEP_RUNS = "STEP_RUNS"
    KIND_CHANGED = "KIND_CHANGED"
    NODE_MOVED = "NODE_MOVED"
    BLOCK_RENAMED = "BLOCK_RENAMED"
    BLOCK_CHANGED = "BLOCK_CHANGED"
    NAME_TAKEN = "NAME_TAKEN"
    EFFECT_KEY_TAKEN = "EFFECT_KEY_TAKEN"
    NODE_PASSED = "NODE_PASSED"


class Refusal(msgspec.Struct, frozen=True):
    """One reason why a run stays where it is.

    `node` is an id of the old version, or of the new one where only that has it, or empty.
    """

    code: str
    node: str
    message: str


class Plan(msgspec.Struct, frozen=True):
    """What a migration does. `from_id` and `to_id` are the ids of the two published versions.

    `nodes` says what becomes of nodes: their id in the new version, or empty where they are gone.
    One that is left out keeps its id, and is gone if the new version has none of that id.
    `asked_by` and `reason` are for the histories.
    """

    migration_id: UUID
    from_id: int
    from_version: int
    to_id: int
    to_version: int
    nodes: Mapping[str, str] = {}
    on_removed: OnRemoved = OnRemoved.REFUSE
    on_passed: OnPassed = OnPassed.REFUSE
    reason: str = ""
    asked_by: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """What a migration tells of one run."""

    outcome: MigrationOutcome
    refusals: tuple[Refusal, ...] = ()


def encode_plan(plan: Plan) -> bytes:
    """Return a plan as events and rows carry it."""
    return msgspec.json.encode(plan)


def decode_plan(details: bytes) -> Plan:
    """Return the plan of an event or a row."""
    return msgspec.json.decode(details, type=Plan)


def encode_refusals(refusals: Sequence[Refusal]) -> bytes:
    """Return reasons as their row holds them."""
    return msgspec.json.encode(refusals)


def decode_refusals(data: bytes) -> tuple[Refusal, ...]:
    """Return the reasons of a row."""
    return msgspec.json.decode(data, type=tuple[Refusal, ...])
