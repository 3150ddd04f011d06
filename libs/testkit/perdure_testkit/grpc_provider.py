"""An outside provider for tests that speaks gRPC: one method, whose work is counted by key.

`testkit.v1.Payments/Charge` takes `account`, `cents` and `at`, and gives `id`, `cents` and
`worked`: how often the work of the call's key was done. The service describes itself.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf import descriptor_pool, timestamp_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha import reflection  # type: ignore[import-untyped]

SERVICE = "testkit.v1.Payments"
METHOD = "Charge"
STREAM = "Watch"
KEY_NAME = "idempotency-key"

_FILE = "testkit/v1/payments.proto"
_MESSAGES: Mapping[str, Mapping[str, int | str]] = {
    "ChargeRequest": {
        "account": FieldDescriptorProto.TYPE_STRING,
        "cents": FieldDescriptorProto.TYPE_INT64,
        "at": ".google.protobuf.Timestamp",
    },
    "ChargeReply": {
        "id": FieldDescriptorProto.TYPE_STRING,
        "cents": FieldDescriptorProto.TYPE_INT64,
        "worked": FieldDescriptorProto.TYPE_INT32,
        "note": FieldDescriptorProto.TYPE_STRING,
    },
}


@dataclass(frozen=True, slots=True)
class Said:
    """What becomes of one call: whether the work `works`, then a status with `trailers`, or an
    answer with a `note`; `raw` is an answer that is no message.
    """

    works: bool = True
    status: grpc.StatusCode = grpc.StatusCode.OK
    details: str = ""
    trailers: tuple[tuple[str, str | bytes], ...] = ()
    note: str = ""
    raw: bytes | None = None
    hold: Any = None


@dataclass
class GrpcProvider:
    """Started and stopped in the loop that its tests run in; `describes` itself unless told not to.

    `key` and `chain` are the key and certificates of TLS; without them it speaks plain.
    """

    describes: bool = True
    tls: tuple[bytes, bytes] | None = None
    calls: list[tuple[Message, Mapping[str, str]]] = field(default_factory=list)
    port: int = 0

    def __post_init__(self) -> None:
        self._worked: Counter[str] = Counter()
        self._script: deque[Said] = deque()
        self._server: grpc.aio.Server | None = None
        self._pool = pool()
        service = self._pool.FindServiceByName(SERVICE)
        method = service.FindMethodByName(METHOD)
        self._request = GetMessageClass(method.input_type)
        self._reply = GetMessageClass(method.output_type)

    async def start(self) -> None:
        """Listen on a free port of loopback."""
        self._server = grpc.aio.server()
        handler: Any = grpc.unary_unary_rpc_method_handler(
            self._charge,
            request_deserializer=self._request.FromString,
            response_serializer=lambda reply: (
                reply if isinstance(reply, bytes) else reply.SerializeToString()
            ),
        )
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),)
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

    def script(self, *said: Said) -> None:
        """Let the next calls go as these say, each once; later ones work."""
        self._script.extend(said)

    def times_worked(self, key: str) -> int:
        """Return how often the work of a key was done; more than 1 is a duplicate."""
        return self._worked[key]

    def _listen(self, server: grpc.aio.Server) -> int:
        if self.tls is None:
            return server.add_insecure_port("127.0.0.1:0")
        return server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([self.tls]))

    async def _charge(self, request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        metadata = {str(name): str(value) for name, value in context.invocation_metadata() or ()}
        self.calls.append((request, metadata))
        said = self._script.popleft() if self._script else Said()
        if said.hold is not None:
            await said.hold.wait()
        key = metadata.get(KEY_NAME, "")
        if said.works and not (key and self._worked[key]):
            self._worked[key] += 1
        if said.status is not grpc.StatusCode.OK:
            await context.abort(said.status, said.details, said.trailers)
        if said.raw is not None:
            return said.raw
        number = self._worked[key]
        return self._reply(id="c1", cents=request.cents, worked=number, note=said.note)


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
    types = {"input_type": ".testkit.v1.ChargeRequest", "output_type": ".testkit.v1.ChargeReply"}
    service.method.add(name=METHOD, **types)
    service.method.add(name=STREAM, server_streaming=True, **types)
    return timestamp, file
