"""Rows of the database as values of the machine."""

from __future__ import annotations

import asyncpg
import msgspec
from perdure_machine.node_error import decode_error, encode_error
from perdure_machine.states import (
    AttemptOutcome,
    BlockEnd,
    EffectStatus,
    RunStatus,
    ScopeStatus,
    StepStatus,
    TimerKind,
)
from perdure_machine.view import (
    AttemptState,
    BlockState,
    EffectCall,
    EffectState,
    NodeError,
    Parent,
    Parked,
    RunState,
    ScopeState,
    StepState,
    TimerState,
)

_tags = msgspec.json.Decoder(dict[str, str]).decode


def run_state(row: asyncpg.Record) -> RunState:
    """Return a locked run; its payloads are not among what was loaded."""
    return RunState(
        run_id=row["run_id"],
        org=row["org"],
        workflow_id=row["workflow_id"],
        workflow=row["workflow"],
        workflow_version=row["workflow_version"],
        status=RunStatus(row["status"]),
        revision=row["revision"],
        generation=row["generation"],
        priority=row["priority"],
        next_step=row["next_step"],
        ended_nodes=row["ended_nodes"],
        inner_ended=row["inner_ended"],
        scope_generation=row["scope_generation"],
        next_seq=row["next_seq"],
        input=None,
        output=row["output"],
        error=_error(row["error"]),
        start_key=row["start_key"],
        tags=_tags(row["tags"]),
        traceparent=row["traceparent"],
        parent=_parent(row),
        depth=row["depth"],
        open_children=row["open_children"],
        awaited_children=row["awaited_children"],
        pending=row["pending"],
        begun_ms=row["begun_ms"],
        has_mail=row["has_mail"],
        has_effects=row["has_effects"],
        paused=row["paused"],
        pauses=row["pauses"],
        dead_lettered=row["dead_lettered"],
        recounted=row["recounted"],
        exclusive_key=row["exclusive_key"],
        ending=RunStatus(row["ending"]) if row["ending"] is not None else None,
        undo_below=row["undo_below"],
        compensations=row["compensations"],
        uncompensated=row["uncompensated"],
        erased=row["erased"],
    )


def step_state(row: asyncpg.Record) -> StepState:
    """Return a step with as much of its payloads as was loaded."""
    return StepState(
        step=row["step"],
        node=row["node"],
        kind=row["kind"],
        status=StepStatus(row["status"]),
        scope=row["scope"],
        generation=row["generation"],
        lane=row["lane"],
        owner=row["owner"],
        priority=row["priority"],
        fence=row["fence"],
        lease_id=row["lease_id"],
        worker=row["worker"],
        failures=row["failures"],
        losses=row["losses"],
        effect_prefix=row["effect_prefix"],
        input=row["input"],
        output=row["output"],
        error=_error(row["error"]),
        traceparent=row["traceparent"],
        taken=tuple(row["taken"]) if row["taken"] is not None else None,
        ended_rank=row["ended_rank"],
        stopping=row["stopping"],
        undecided=row["undecided"],
        compensable=row["compensable"],
        compensates=row["compensates"],
        parked=_parked(row),
        lease_left=row["lease_left"],
    )


def _parked(row: asyncpg.Record) -> Parked | None:
    if row["parked_on"] is None:
        return None
    return Parked(row["parked_on"], row["parked_generation"], StepStatus(row["parked_from"]))


def effect_state(row: asyncpg.Record) -> EffectState | None:
    """Return the effect that a step was loaded with, or None."""
    if row["effect_key"] is None:
        return None
    return EffectState(
        key=row["effect_key"],
        step=row["effect_step"],
        kind=row["effect_kind"],
        status=EffectStatus(row["effect_status"]),
        fence=row["effect_fence"],
        calls=row["effect_calls"],
        age=row["effect_age"],
    )


def whole_effect_state(row: asyncpg.Record) -> EffectState:
    """Return an effect that was loaded with its call."""
    return EffectState(
        key=row["key"],
        step=row["step"],
        kind=row["kind"],
        status=EffectStatus(row["status"]),
        fence=row["fence"],
        calls=row["calls"],
        age=row["age"],
        call=_call(row) if row["token"] is not None else None,
    )


def _call(row: asyncpg.Record) -> EffectCall:
    return EffectCall(
        token=row["token"],
        digest=row["digest"] or b"",
        keep=row["keep"],
        can_look_up=row["can_look_up"],
        lookups=row["lookups"],
        epoch=row["epoch"],
        result=row["result"],
        note=row["note"],
        waiter=row["waiter"],
        lease_left=row["lease_left"],
    )


def attempt_state(row: asyncpg.Record) -> AttemptState:
    """Return a finished acquisition."""
    return AttemptState(
        row["step"],
        row["fence"],
        row["lease_id"],
        AttemptOutcome(row["outcome"]),
        row["next_step"],
    )


def scope_state(row: asyncpg.Record) -> ScopeState:
    """Return a scope; its output is not among what was loaded."""
    return ScopeState(
        scope=row["scope"],
        generation=row["generation"],
        owner=row["owner"],
        index=row["index"],
        status=ScopeStatus(row["status"]),
        ended_nodes=row["ended_nodes"],
        item=row["item"],
        carry=row["carry"],
        error=_error(row["error"]),
    )


def block_state(row: asyncpg.Record) -> BlockState:
    """Return the counters of a step that holds a sub-graph."""
    return BlockState(
        step=row["step"],
        generation=row["generation"],
        total=row["total"],
        limit=row["at_once"],
        made=row["made"],
        begun=row["begun"],
        ended=row["ended"],
        failed=row["failed"],
        ending=BlockEnd(row["ending"]) if row["ending"] is not None else None,
        error=_error(row["error"]),
    )


def timer_state(row: asyncpg.Record) -> TimerState:
    """Return a timer."""
    return TimerState(
        timer_id=row["timer_id"],
        kind=TimerKind(row["kind"]),
        step=row["step"],
        generation=row["generation"],
        remaining=row["remaining"],
        now_ms=row["now_ms"],
        details=row["details"],
    )


def _parent(row: asyncpg.Record) -> Parent | None:
    if row["parent_run"] is None:
        return None
    return Parent(row["parent_run"], row["parent_step"], row["parent_told"])


def error_bytes(error: NodeError | None) -> bytes | None:
    """Return an error as its column holds it."""
    return encode_error(error) if error is not None else None


def _error(data: bytes | None) -> NodeError | None:
    return decode_error(data) if data is not None else None
