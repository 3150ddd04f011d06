"""Reads requests of the door; everything wrong with one is said at once, by field."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from perdure_contracts.v1 import worker_service_pb2 as pb
from perdure_machine.payload import check_payload
from perdure_runtime.errors import FieldViolation, InvalidArgument, Reason
from perdure_runtime.gate.checking import Check

from perdure_worker.door import limits
from perdure_worker.door.polls import Asked
from perdure_worker.outcome import (
    MAX_CODE_CHARACTERS,
    MAX_DETAILS_BYTES,
    MAX_OUTPUT_BYTES,
    Completed,
    ErrorClass,
    Failed,
)

_COST = re.compile(r"\d{1,9}(\.\d{1,6})?")
_MICROS = 1_000_000


@dataclass(frozen=True, slots=True)
class Next:
    """Of which lanes a next task may come, and who takes it."""

    lanes: Sequence[str]
    worker: str


class TaskCheck(Check):
    """Collects what is wrong with one request of the door."""

    def worker(self, value: str, *, required: bool = True) -> str:
        """Check who asks."""
        return self.text("worker_id", value, longest=limits.MAX_WORKER_ID, required=required)

    def lanes(self, field: str, values: Sequence[str]) -> list[str]:
        """Check names of lanes, which count once each."""
        if len(values) > limits.MAX_LANES:
            self.add(field, f"has {len(values)} entries; at most {limits.MAX_LANES} are allowed")
        for place, value in enumerate(values[: limits.MAX_LANES]):
            self.text(f"{field}[{place}]", value, longest=limits.MAX_LANE_NAME, required=True)
        return list(dict.fromkeys(values))

    def token(self, value: str) -> str:
        """Check the form of a token."""
        return self.text("task_token", value, longest=limits.MAX_TOKEN, required=True)

    def tokens(self, values: Sequence[str], most: int) -> list[str]:
        """Check the form of several."""
        if not 1 <= len(values) <= most:
            self.add("task_tokens", f"must have 1 to {most} entries, has {len(values)}")
        for place, value in enumerate(values[:most]):
            self.text(f"task_tokens[{place}]", value, longest=limits.MAX_TOKEN, required=True)
        return list(values)

    def payload(self, field: str, value: bytes, most: int) -> bytes:
        """Check JSON's size, depth, encoding and form; empty stands for its default."""
        if value:
            try:
                check_payload(value, field, most, limits.MAX_PAYLOAD_DEPTH)
            except InvalidArgument as refusal:
                self.note(refusal)
        return value

    def cost(self, value: str) -> int | None:
        """Return an amount in millionths; None where none is told."""
        if not value:
            return None
        if not _COST.fullmatch(value):
            self.add("cost", "is no amount below 1,000,000,000 with at most six places")
            return None
        return int(Decimal(value) * _MICROS)


def registration(request: pb.RegisterWorkerRequest) -> None:
    """Check who is there. Raises InvalidArgument."""
    fields = TaskCheck()
    fields.worker(request.worker_id)
    spoken = request.protocol_version or limits.PROTOCOL_VERSION
    fields.number("protocol_version", spoken, least=1, most=limits.PROTOCOL_VERSION)
    fields.refuse()


def asked(request: pb.PollTasksRequest, org: str, left: float | None) -> Asked:
    """Read a poll whose call has `left` seconds. Raises InvalidArgument."""
    fields = TaskCheck()
    worker = fields.worker(request.worker_id)
    lanes = fields.lanes("lanes", request.lanes) or [limits.DEFAULT_LANE]
    room = fields.number("max_tasks", request.max_tasks or 1, least=1, most=limits.MAX_TASKS)
    wait = fields.seconds(
        "wait",
        request.wait if request.HasField("wait") else None,
        longest=limits.MAX_WAIT_SECONDS,
        words=f"{limits.MAX_WAIT_SECONDS:g} seconds",
    )
    fields.refuse()
    bounds = [limits.MAX_WAIT_SECONDS if wait is None else wait]
    return Asked(org, worker, lanes, room, min(bounds + ([left] if left is not None else [])))


def completion(request: pb.CompleteTaskRequest) -> tuple[str, Completed, Next]:
    """Read a good end: the token, the outcome, what may follow. Raises InvalidArgument."""
    fields = TaskCheck()
    token = fields.token(request.task_token)
    output = fields.payload("output", request.output, MAX_OUTPUT_BYTES)
    cost = fields.cost(request.cost)
    lanes = fields.lanes("next_lanes", request.next_lanes)
    worker = fields.worker(request.worker_id, required=bool(request.next_lanes))
    fields.refuse()
    return token, Completed(output or b"null", cost=cost), Next(lanes, worker)


def failure(request: pb.FailTaskRequest) -> tuple[str, Failed]:
    """Read a failure: the token, the outcome. Raises InvalidArgument.

    The message is cleaned and cut where need be, never refused (R12).
    """
    fields = TaskCheck()
    token = fields.token(request.task_token)
    kind = fields.one_of("class", getattr(request, "class"), tuple(ErrorClass))
    code = fields.text("code", request.code, longest=MAX_CODE_CHARACTERS)
    details = fields.payload("details", request.details, MAX_DETAILS_BYTES)
    asked_for = fields.seconds(
        "retry_after",
        request.retry_after if request.HasField("retry_after") else None,
        longest=limits.MAX_RETRY_AFTER_SECONDS,
        words="366 days",
    )
    cost = fields.cost(request.cost)
    fields.refuse()
    known = ErrorClass(kind or ErrorClass.RETRYABLE)
    return token, Failed(known, code or "ERROR", request.message, details, asked_for, cost=cost)


def heartbeats(request: pb.HeartbeatTasksRequest) -> list[str]:
    """Read the tokens of tasks to keep. Raises InvalidArgument."""
    return _tokens(request.task_tokens, limits.MAX_HEARTBEATS)


def releases(request: pb.ReleaseTasksRequest) -> list[str]:
    """Read the tokens of tasks to hand back. Raises InvalidArgument."""
    return _tokens(request.task_tokens, limits.MAX_RELEASES)


def drained(request: pb.DrainWorkerRequest) -> str:
    """Read which worker ends. Raises InvalidArgument."""
    fields = TaskCheck()
    worker = fields.worker(request.worker_id)
    fields.refuse()
    return worker


def token_refused() -> InvalidArgument:
    """Build the error of a token that is not good; it names nothing."""
    problem = "is no token of a task of this org, or its time is over"
    return InvalidArgument(
        f"task_token {problem}",
        reason=Reason.TASK_TOKEN_INVALID,
        violations=[FieldViolation("task_token", problem)],
    )


def _tokens(values: Sequence[str], most: int) -> list[str]:
    fields = TaskCheck()
    tokens = fields.tokens(values, most)
    fields.refuse()
    return tokens
