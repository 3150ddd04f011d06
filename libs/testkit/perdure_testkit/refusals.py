"""What hostile requests are answered with, and whether that is what the table says."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.rpc.error_details_pb2 import (  # type: ignore[import-untyped]
    BadRequest,
    ErrorInfo,
    RetryInfo,
)
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from perdure_runtime.reasons import Code, Reason
from perdure_runtime.rpc.errors import DETAILS_KEY, DOMAIN

from perdure_testkit.hostile import Attack, attacks, malformed, spoil

FAULTS = (Code.INTERNAL, Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.UNIMPLEMENTED)
TEXTS = re.compile(r"NUL|too long|not UTF-8|nested")
LAST = "page_token"
"""Is read when nothing else is wrong, as it is good for one query only."""

MayPass = Callable[[MethodDescriptor, Attack], bool]
"""Tells whether a method may answer a request well all the same."""


@dataclass(frozen=True, slots=True)
class Door:
    """Where requests go, and what they present there."""

    channel: grpc.aio.Channel
    api_key: str

    async def answered(self, method: MethodDescriptor, sent: bytes) -> grpc.aio.AioRpcError | None:
        """Send bytes to a method; return what it failed with, None if it did not."""
        path = f"/{method.containing_service.full_name}/{method.name}"
        presented = (("authorization", f"Bearer {self.api_key}"),)
        channel = self.channel
        call: Any = channel.unary_stream if method.server_streaming else channel.unary_unary
        try:
            answer = call(path)(sent, timeout=20.0, metadata=presented)
            await (answer.read() if method.server_streaming else answer)
        except grpc.aio.AioRpcError as error:
            return error
        return None

    async def attacked(
        self, method: MethodDescriptor, may_pass: MayPass, *, filled: bool
    ) -> list[str]:
        """Send each attack; return what is wrong with the answers."""
        found = []
        for attack in attacks(method.input_type, filled=filled):
            error = await self.answered(method, attack.request.SerializeToString())
            problem = wrong(method, attack, error, may_pass)
            if problem:
                found.append(f"{method.name} {attack.field} {attack.how}: {problem}")
        return found

    async def spoilt(self, method: MethodDescriptor, but: frozenset[str] = frozenset()) -> str:
        """Spoil every text of a request, and return what is not told of them at once.

        `but` are fields that are never refused.
        """
        request, spoilt = spoil(method.input_type)
        error = await self.answered(method, request.SerializeToString())
        told = fields_of(error) if error is not None else set()
        missing = spoilt - but - told
        return f"{method.name}: {sorted(missing)} besides {sorted(told)}" if missing else ""

    async def malformed(self, method: MethodDescriptor) -> list[str]:
        """Send bytes that are no message; return what is wrong with the answers."""
        found = []
        for how, sent in malformed(method.input_type):
            error = await self.answered(method, sent)
            if error is None or reason_of(error) is not Reason.MESSAGE_MALFORMED:
                found.append(f"{method.name} {how}: {error}")
        return found

    async def reads_ten_megabytes(self, method: MethodDescriptor) -> bool:
        """Tell whether a method reads a message of ten megabytes (F091)."""
        error = await self.answered(method, bytes(10 * 1024 * 1024))
        assert error is not None
        return (error.code(), "larger than max" in (error.details() or "")) != (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            True,
        )


def wrong(
    method: MethodDescriptor,
    attack: Attack,
    error: grpc.aio.AioRpcError | None,
    may_pass: MayPass,
) -> str | None:
    """Return what is wrong with the answer to an attack, None for nothing."""
    if error is None:
        return None if may_pass(method, attack) else "it was answered"
    try:
        reason, fields = reason_of(error), fields_of(error)
    except LookupError as missing:
        return f"{error.code().name} {missing}"
    if reason.code.name != error.code().name or reason.code in FAULTS:
        return f"{error.code().name} {reason}: {error.details()}"
    if (reason.wait is None) != (detail(error, RetryInfo) is None):
        return f"{reason} and RetryInfo disagree"
    return None if names(method, attack, reason, fields) else f"{reason} {fields}"


def names(method: MethodDescriptor, attack: Attack, reason: Reason, fields: set[str]) -> bool:
    """Tell whether a refusal is about fields of the request, the hostile one if it is a text."""
    field = method.input_type.fields_by_name[attack.field]
    known = set(method.input_type.fields_by_name) | set(method.input_type.oneofs_by_name)
    if not TEXTS.search(attack.how) or attack.field == LAST:
        return fields <= known
    around = {field.name, field.containing_oneof.name if field.containing_oneof else field.name}
    return reason.code is Code.INVALID_ARGUMENT and fields <= known and bool(fields & around)


def reason_of(error: grpc.aio.AioRpcError) -> Reason:
    """Return the reason of a failure. Raises LookupError for one without."""
    info = detail(error, ErrorInfo)
    if info is None or info.domain != DOMAIN or info.reason not in Reason.__members__:
        raise LookupError(f"has no reason: {error.details()}")
    return Reason(info.reason)


def fields_of(error: grpc.aio.AioRpcError) -> set[str]:
    """Return the fields of the top level that a failure names."""
    bad = detail(error, BadRequest)
    violations = bad.field_violations if bad is not None else ()
    return {re.split(r"[.\[ ]", one.field)[0] for one in violations}


def detail(error: grpc.aio.AioRpcError, kind: Any) -> Any:
    """Return a detail of a failure, None if it has none of the kind."""
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS_KEY:
            for packed in Status.FromString(value).details:
                found = kind()
                if packed.Unpack(found):
                    return found
    return None
