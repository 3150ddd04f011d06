"""Calls that are begun by themselves, of either kind, with their providers and what is told."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Protocol

import grpc
from perdure_contracts.internal.v1 import dispatch_pb2
from perdure_contracts.internal.v1 import effects_pb2 as pb
from perdure_testkit.grpc_provider import KEY_NAME, LOOKUP, METHOD, SERVICE, GrpcProvider, Said
from perdure_testkit.provider import DROP_AFTER_WORK, Behaviour, Provider

from tests.integration.worker.fake_engine import RUN_ID, Stage, grant

KEY = f"{RUN_ID}/node1/request"
CALL = "/faxes"
FOUND = "/found"
CALL_MS = 30_000
"""How long a call may take whose node sets no timeout."""


class Side(Protocol):
    """A provider, and the calls that lead to it."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def input(self) -> dict[str, Any]:
        """Return what a worker is told: its kind of step, the call and its look-up."""

    def breaks(self) -> None:
        """Let the next call break when its work is done."""

    def holds(self, until: asyncio.Event) -> None:
        """Let the next call wait before its work."""

    def keys(self) -> list[str]:
        """Return the key of each call that came."""

    def asked(self) -> list[str]:
        """Return what each look-up had of a key, empty for none."""


class HttpSide:
    def __init__(self) -> None:
        self.provider = Provider()
        self.start, self.stop = self.provider.start, self.provider.stop

    def input(self) -> dict[str, Any]:
        lookup = {"method": "GET", "url": self.provider.url(FOUND)}
        url = self.provider.url(CALL)
        request = {"method": "POST", "url": url, "body": {"n": 1}, "lookup": lookup}
        return {"kind": dispatch_pb2.STEP_KIND_HTTP, "input": json.dumps(request).encode()}

    def breaks(self) -> None:
        self.provider.script(CALL, DROP_AFTER_WORK)

    def holds(self, until: asyncio.Event) -> None:
        self.provider.script(CALL, Behaviour(hold=until))

    def keys(self) -> list[str]:
        return [call.key for call in self.provider.calls_of(CALL)]

    def asked(self) -> list[str]:
        return [call.key for call in self.provider.calls_of(FOUND)]


class GrpcSide:
    def __init__(self) -> None:
        self.provider = GrpcProvider()
        self.start, self.stop = self.provider.start, self.provider.stop

    def input(self, **lookup: Any) -> dict[str, Any]:
        asked = {"service": SERVICE, "method": LOOKUP, "request": {"key": KEY}, **lookup}
        call = {
            "target": self.provider.target,
            "service": SERVICE,
            "method": METHOD,
            "request": {"cents": 7},
            "plaintext": True,
            "lookup": asked,
        }
        return {"kind": dispatch_pb2.STEP_KIND_GRPC, "input": json.dumps(call).encode()}

    def breaks(self) -> None:
        self.provider.script(Said(status=grpc.StatusCode.UNAVAILABLE))

    def holds(self, until: asyncio.Event) -> None:
        self.provider.script(Said(hold=until))

    def keys(self) -> list[str]:
        return [metadata.get(KEY_NAME, "") for _, metadata in self.provider.calls]

    def asked(self) -> list[str]:
        return [metadata.get(KEY_NAME, "") for _, metadata in self.provider.lookups]


def begun(call: dict[str, Any], *, kind: str = "none", **fields: Any) -> dispatch_pb2.StepGrant:
    """A hand-out of a step that begins its call by itself."""
    effect = dispatch_pb2.EffectGrant(
        key=KEY, kind=kind, begin_first=True, name="request", can_look_up=kind == "reconcile"
    )
    return grant(**{"handler": "", "effect": effect, **call, **fields})


def answering(stage: Stage, *results: pb.BeginEffectResult) -> None:
    """Answer the wishes to call with these, in order."""
    left = list(results)
    stage.engine.answer_begin = lambda item: left.pop(0)


def status(name: str, **fields: Any) -> pb.BeginEffectResult:
    number = pb.BeginEffectStatus.Value(f"BEGIN_EFFECT_STATUS_{name}")
    return pb.BeginEffectResult(status=number, key=KEY, lease_ms=CALL_MS + 10_000, **fields)


def settling(stage: Stage, name: str, **fields: Any) -> None:
    """Answer what is told with this."""
    number = pb.SettleEffectStatus.Value(f"SETTLE_EFFECT_STATUS_{name}")
    stage.engine.answer_settle = lambda item: pb.SettleEffectResult(status=number, **fields)


async def told(stage: Stage, found: dispatch_pb2.StepGrant) -> pb.SettleEffectItem:
    """Return what a worker tells of a step's call, which goes on without it."""
    worker = await stage.start()
    await stage.ready(found)
    await stage.engine.until(lambda: stage.engine.settled)
    await worker.drain()
    (item,) = stage.engine.settled
    assert stage.engine.reports == []
    return item
