"""An outside provider for tests that speaks gRPC: one method, whose work is counted by key.

`testkit.v1.Payments/Charge` takes `account`, `cents` and `at`, and gives `id`, `cents` and
`worked`: how often the work of the call's key was done. `Find` takes a `key` and gives the same,
`NOT_FOUND` where nothing was done; `Count` gives `worked` alone, 0 too. The service describes
itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import grpc
from google.protobuf import descriptor_pool, timestamp_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha import reflection  # type: ignore[import-untyped]

SERVICE = "testkit.v1.Payments"
METHOD = "Charge"
LOOKUP = "Find"
COUNT = "Count"
STREAM = "Watch"
KEY_NAME = "idempotency-key"
NEWEST_REFLECTION = "grpc.reflection.v1.ServerReflection"

_Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
_FILE = "testkit/v1/payments.proto"
_MESSAGES: Mapping[str, Mapping[str, int | str]] = {
    "ChargeRequest": {
        "account": FieldDescriptorProto.TYPE_STRING,
        "cents": FieldDescriptorProto.TYPE_INT64,
        "at": ".google.protobuf.Timestamp",
    },
    "FindRequest": {"key": FieldDescriptorProto.TYPE_STRING},
    "ChargeReply": {
        "id": FieldDescriptorProto.TYPE_STRING,
        "cents": FieldDescriptorProto.TYPE_INT64,
        "worked": FieldDescriptorProto.TYPE_INT32,
        "note": FieldDescriptorProto.TYPE_STRING,
    },
}
_TAKES = {METHOD: "ChargeRequest", LOOKUP: "FindRequest", COUNT: "FindRequest"}


@dataclass(frozen=True, slots=True)
class Said:
    """What becomes of one call: whether the work `works`, then a status with `trailers`, or an
    answer with a `note`; `raw` is an answer that is no message. `hold` is awaited before the work
    and `delay` after it.
    """

    works: bool = True
    status: grpc.StatusCode = grpc.StatusCode.OK
    details: str = ""
    trailers: tuple[tuple[str, str | bytes], ...] = ()
    note: str = ""
    raw: bytes | None = None
    hold: asyncio.Event | None = None
    delay: asyncio.Event | None = None


WORK = Said()


@dataclass
class GrpcProvider:
    """Started and stopped in the loop that its tests run in; `describes` itself unless told not to,
    by the older way; `newest` is what the newest one ends with, if it is there.

    `tls` is the key and the certificates; without them it speaks plain. What it `honours` is the
    key of a call: the work of one is then done once. `calls` are of `Charge`, `lookups` all others.
    """

    describes: bool = True
    newest: grpc.StatusCode | None = None
    honours: bool = True
    tls: tuple[bytes, bytes] | None = None
    calls: list[tuple[Message, Mapping[str, str]]] = field(default_factory=list)
    lookups: list[tuple[Any, Mapping[str, str]]] = field(default_factory=list)
    port: int = 0

    def __post_init__(self) -> None:
        self._worked: Counter[str] = Counter()
        self._working: set[asyncio.Task[None]] = set()
        self._scripts: defaultdict[str, deque[Said]] = defaultdict(deque)
        self._server: grpc.aio.Server | None = None
        self._pool = pool()
        service = self._pool.FindServiceByName(SERVICE)
        self._methods = {name: service.FindMethodByName(name) for name in _TAKES}
        self._reply = GetMessageClass(self._methods[METHOD].output_type)

    async def start(self) -> None:
        """Listen on a free port of loopback."""
        self._server = grpc.aio.server()
        does = {METHOD: self._charge, LOOKUP: self._find, COUNT: self._count}
        handlers = {name: self._handler(name, do) for name, do in does.items()}
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, handlers),)
        )
        if self.newest is not None:
            refusal: Any = grpc.stream_stream_rpc_method_handler(self._refuse)
            of_reflection = {"ServerReflectionInfo": refusal}
            self._server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler(NEWEST_REFLECTION, of_reflection),)
            )
        if self.describes:
            names = (SERVICE, reflection.SERVICE_NAME)
            reflection.enable_server_reflection(names, self._server, pool=self._pool)
        self.port = self._listen(self._server)
        await self._server.start()

    async def stop(self) -> None:
        """Close the port and every open call."""
        if self._server is not None:
            await self._server.stop(None)

    @property
    def target(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    def script(self, *said: Said, method: str = METHOD) -> None:
        """Let the next calls of a method go as these say, each once; later ones go well."""
        self._scripts[method].extend(said)

    def times_worked(self, key: str) -> int:
        """Return how often the work of a key was done; more than 1 is a duplicate."""
        return self._worked[key]

    def _listen(self, server: grpc.aio.Server) -> int:
        if self.tls is None:
            return server.add_insecure_port("127.0.0.1:0")
        return server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([self.tls]))

    def _handler(self, name: str, do: Callable[..., Awaitable[Any]]) -> Any:
        return grpc.unary_unary_rpc_method_handler(
            do,
            request_deserializer=GetMessageClass(self._methods[name].input_type).FromString,
            response_serializer=lambda reply: (
                reply if isinstance(reply, bytes) else reply.SerializeToString()
            ),
        )

    async def _refuse(self, _: Any, context: _Context) -> None:
        assert self.newest is not None
        await context.abort(self.newest)

    async def _charge(self, request: Any, context: _Context) -> Any:
        metadata = _metadata(context)
        self.calls.append((request, metadata))
        key = metadata.get(KEY_NAME, "")
        said = self._next(METHOD)
        # A call whose caller is gone is cancelled; the work that it asked for is not taken back.
        working = asyncio.create_task(self._work(said, key))
        self._working.add(working)
        working.add_done_callback(self._working.discard)
        await asyncio.shield(working)
        return await self._said(
            said, context, id="c1", cents=request.cents, worked=self.times_worked(key)
        )

    async def _work(self, said: Said, key: str) -> None:
        if said.hold is not None:
            await said.hold.wait()
        if said.works and not (key and self.honours and self._worked[key]):
            self._worked[key] += 1
        if said.delay is not None:
            await said.delay.wait()

    async def _find(self, request: Any, context: _Context) -> Any:
        self.lookups.append((request, _metadata(context)))
        absent = Said(status=grpc.StatusCode.NOT_FOUND, details="there is no such charge")
        done = self.times_worked(request.key)
        said = self._next(LOOKUP, Said() if done else absent)
        return await self._said(said, context, id="c1", worked=done)

    async def _count(self, request: Any, context: _Context) -> Any:
        self.lookups.append((request, _metadata(context)))
        return await self._said(self._next(COUNT), context, worked=self.times_worked(request.key))

    async def _said(self, said: Said, context: _Context, **answer: Any) -> Any:
        if said.status is not grpc.StatusCode.OK:
            await context.abort(said.status, said.details, said.trailers)
        if said.raw is not None:
            return said.raw
        return self._reply(**answer, note=said.note)

    def _next(self, method: str, usual: Said = WORK) -> Said:
        script = self._scripts[method]
        return script.popleft() if script else usual


def _metadata(context: _Context) -> Mapping[str, str]:
    return {str(name): str(value) for name, value in context.invocation_metadata() or ()}


def pool() -> descriptor_pool.DescriptorPool:
    """Return the descriptors of the service."""
    found = descriptor_pool.DescriptorPool()
    for file in files():
        found.AddSerializedFile(file.SerializeToString())
    return found


def files() -> tuple[FileDescriptorProto, FileDescriptorProto]:
    """Return the files that describe the service, what it needs first."""
    file = FileDescriptorProto(name=_FILE, package="testkit.v1", syntax="proto3")
    timestamp = FileDescriptorProto.FromString(timestamp_pb2.DESCRIPTOR.serialized_pb)
    file.dependency.append(timestamp.name)
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field_name, kind) in enumerate(fields.items(), start=1):
            added = message.field.add(name=field_name, number=number)
            added.label = FieldDescriptorProto.LABEL_OPTIONAL
            if isinstance(kind, str):
                added.type, added.type_name = FieldDescriptorProto.TYPE_MESSAGE, kind
            else:
                added.type = FieldDescriptorProto.Type.ValueType(kind)
    service = file.service.add(name=SERVICE.rpartition(".")[2])
    gives = {"output_type": ".testkit.v1.ChargeReply"}
    for name, takes in _TAKES.items():
        service.method.add(name=name, input_type=f".testkit.v1.{takes}", **gives)
    takes = f".testkit.v1.{_TAKES[METHOD]}"
    service.method.add(name=STREAM, server_streaming=True, input_type=takes, **gives)
    return timestamp, file
