"""Reads what handlers ask and tell of their outside calls; all that is wrong is said at once."""

from __future__ import annotations

import math
import uuid

from google.protobuf.duration_pb2 import Duration
from perdure_contracts.internal.v1 import dispatch_pb2
from perdure_contracts.internal.v1.effects_pb2 import BeginEffectItem, SettleEffectItem
from perdure_contracts.v1 import worker_service_pb2 as pb
from perdure_runtime.errors import clean_text

from perdure_worker.door import limits
from perdure_worker.door.requests import TaskCheck
from perdure_worker.outcome import MAX_OUTPUT_BYTES

MAX_NOTE_CHARACTERS = 1000

_OUTCOMES = {
    pb.CALL_OUTCOME_PERFORMED: dispatch_pb2.EFFECT_OUTCOME_PERFORMED,
    pb.CALL_OUTCOME_NOT_PERFORMED: dispatch_pb2.EFFECT_OUTCOME_NOT_PERFORMED,
    pb.CALL_OUTCOME_UNKNOWN: dispatch_pb2.EFFECT_OUTCOME_UNKNOWN,
}


class _EffectCheck(TaskCheck):
    """Collects what is wrong with one request about an outside call."""

    def name(self, value: str) -> str:
        """Check what a call is named."""
        if "/" in value:
            self.add("name", "holds a /")
        return self.text("name", value, longest=limits.MAX_EFFECT_NAME, required=True)

    def kind(self, value: str) -> str:
        """Check how a call may be repeated."""
        if not value:
            self.add("kind", "is required")
        return self.one_of("kind", value, limits.EFFECT_KINDS)

    def call_token(self, value: str) -> str:
        """Check the token of a call."""
        try:
            uuid.UUID(value)
        except ValueError:
            self.add("call_token", "is no UUID")
        return value

    def digest(self, value: str) -> bytes:
        """Check what requests are told apart by."""
        text = self.text("request_digest", value, longest=limits.MAX_DIGEST_BYTES)
        if not text.isascii():
            self.add("request_digest", "holds more than ASCII")
        return text.encode()

    def milliseconds(
        self, field: str, message: Duration | None, *, longest: float, words: str
    ) -> int:
        """Check a length of time; absent is 0."""
        seconds = self.seconds(field, message, longest=longest, words=words)
        return math.ceil((seconds or 0.0) * 1000)


def wish(request: pb.BeginEffectRequest) -> tuple[str, BeginEffectItem]:
    """Read a wish to call: the task's token, and the item without a lease. Raises
    InvalidArgument.
    """
    fields = _EffectCheck()
    token = fields.token(request.task_token)
    called = request.call_time if request.HasField("call_time") else None
    call_ms = fields.milliseconds(
        "call_time", called, longest=limits.MAX_CALL_SECONDS, words="a day"
    )
    if called is None or not (called.seconds or called.nanos):
        fields.add("call_time", "is required")
    kept = request.keep if request.HasField("keep") else None
    item = BeginEffectItem(
        name=fields.name(request.name),
        kind=fields.kind(request.kind),
        token=fields.call_token(request.call_token),
        call_ms=call_ms,
        request_digest=fields.digest(request.request_digest),
        keep_ms=fields.milliseconds(
            "keep", kept, longest=limits.MAX_KEEP_SECONDS, words="ten years"
        ),
        can_look_up=request.can_look_up or request.kind == "reconcile",
    )
    fields.refuse()
    return token, item


def settlement(request: pb.SettleEffectRequest) -> tuple[str, SettleEffectItem]:
    """Read what became of a call: the task's token, and the item without a run. Raises
    InvalidArgument.
    """
    fields = _EffectCheck()
    token = fields.token(request.task_token)
    if request.outcome not in _OUTCOMES:
        fields.add("outcome", "is required")
    item = SettleEffectItem(
        key=fields.text("key", request.key, longest=limits.MAX_EFFECT_KEY, required=True),
        token=fields.call_token(request.call_token),
        outcome=_OUTCOMES.get(request.outcome, dispatch_pb2.EFFECT_OUTCOME_UNKNOWN),
        result=fields.payload("result", request.result, MAX_OUTPUT_BYTES),
        note=clean_text(request.note, limit=MAX_NOTE_CHARACTERS),
    )
    fields.refuse()
    return token, item
