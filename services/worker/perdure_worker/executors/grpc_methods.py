"""What a gRPC method takes and gives: from descriptors that an operator gave, else from the server.

The server is asked by reflection, v1 and then v1alpha, whose messages are the same. What it says is
kept for a while, per org: a description may have been given to whoever proved who he is.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError
from grpc_reflection.v1alpha.reflection_pb2 import (  # type: ignore[import-untyped]
    ServerReflectionRequest,
    ServerReflectionResponse,
)
from perdure_runtime.errors import FieldViolation, InvalidArgument, Reason

from perdure_worker.executors.grpc_request import GrpcRequest

REFLECTIONS = (
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
)
REFUSED = frozenset({grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INTERNAL})
"""How it looks that a server has no reflection of that name; INTERNAL, which this side says itself,
where the refusal comes before the question is written."""
MAX_FILES = 500
KEPT_SECONDS = 300.0
KEPT_SERVICES = 256

Pool = descriptor_pool.DescriptorPool
Metadata = Sequence[tuple[str, str]]


class MethodUnknown(Exception):
    """There is no such method, or none that takes and gives one message."""


class Undescribed(Exception):
    """The server gave no description that can be used."""


class _NoReflection(Undescribed):
    pass


@dataclass(frozen=True, slots=True)
class _Kept:
    pool: Pool
    until: float


class Methods:
    """Finds methods. Raises InvalidArgument for a file that holds no descriptors."""

    def __init__(self, files: Iterable[str]) -> None:
        self._given = [_pool(_read(file), file) for file in files]
        self._kept: OrderedDict[tuple[str, ...], _Kept] = OrderedDict()

    async def find(
        self, channel: grpc.aio.Channel, request: GrpcRequest, org: str, metadata: Metadata
    ) -> MethodDescriptor:
        """Return the method of a request. Raises MethodUnknown, Undescribed, AioRpcError."""
        pool = next((one for one in self._given if _has(one, request.service)), None)
        if pool is None:
            pool = await self._described(channel, request, org, metadata)
        return _method(pool, request)

    def forget(self, request: GrpcRequest, org: str) -> None:
        """Ask the server again the next time, as its methods may have changed."""
        self._kept.pop(_place(request, org), None)

    async def _described(
        self, channel: grpc.aio.Channel, request: GrpcRequest, org: str, metadata: Metadata
    ) -> Pool:
        place, now = _place(request, org), time.monotonic()
        known = self._kept.get(place)
        if known is not None and known.until > now:
            return known.pool
        pool = _pool(await _reflected(channel, request.service, metadata), "the server")
        self._kept[place] = _Kept(pool, now + KEPT_SECONDS)
        self._kept.move_to_end(place)
        while len(self._kept) > KEPT_SERVICES:
            self._kept.popitem(last=False)
        return pool


def _place(request: GrpcRequest, org: str) -> tuple[str, ...]:
    return org, request.authority, str(request.plaintext), request.service


def _read(file: str) -> list[FileDescriptorProto]:
    try:
        return list(FileDescriptorSet.FromString(Path(file).read_bytes()).file)
    except (OSError, DecodeError) as error:
        problem = f"{file} holds no set of descriptors: {error}"
        raise InvalidArgument(
            f"grpc_descriptors: {problem}",
            reason=Reason.CONFIG_INVALID,
            violations=[FieldViolation("grpc_descriptors", problem)],
        ) from error


def _pool(files: Sequence[FileDescriptorProto], source: str) -> Pool:
    """Return a pool of these files, in whatever order they came. Raises Undescribed."""
    pool, left = Pool(), {file.name: file for file in files}
    while left:
        ready = [one for one in left.values() if not any(need in left for need in one.dependency)]
        if not ready:
            raise Undescribed(f"the descriptors of {source} need each other in a circle")
        for file in ready:
            try:
                pool.AddSerializedFile(left.pop(file.name).SerializeToString())
            except (TypeError, KeyError) as error:
                raise Undescribed(f"the descriptors of {source} do not fit: {error}") from error
    return pool


def _has(pool: Pool, service: str) -> bool:
    try:
        pool.FindServiceByName(service)
    except KeyError:
        return False
    return True


def _method(pool: Pool, request: GrpcRequest) -> MethodDescriptor:
    try:
        found = pool.FindServiceByName(request.service).FindMethodByName(request.method)
    except KeyError:
        found = None
    if found is None:
        raise MethodUnknown(f"{request.service} has no method {request.method}")
    if found.client_streaming or found.server_streaming:
        raise MethodUnknown(f"{request.service}/{request.method} takes or gives a stream")
    return found


async def _reflected(
    channel: grpc.aio.Channel, service: str, metadata: Metadata
) -> list[FileDescriptorProto]:
    first, second = REFLECTIONS
    try:
        return await _ask(channel, first, service, metadata)
    except _NoReflection:
        pass  # how a refusal looks that comes between two looks at the stream
    except grpc.aio.AioRpcError as error:
        if error.code() not in REFUSED:
            raise
    return await _ask(channel, second, service, metadata)


async def _ask(
    channel: grpc.aio.Channel, path: str, service: str, metadata: Metadata
) -> list[FileDescriptorProto]:
    call = channel.stream_stream(
        path,
        request_serializer=ServerReflectionRequest.SerializeToString,
        response_deserializer=ServerReflectionResponse.FromString,
    )(metadata=metadata)
    files: dict[str, FileDescriptorProto] = {}
    wanted = ServerReflectionRequest(file_containing_symbol=service)
    while True:
        await call.write(wanted)
        known = len(files)
        async for file in _answered(call, service):
            files[file.name] = file
        missing = sorted({need for one in files.values() for need in one.dependency} - set(files))
        if not missing:
            await call.done_writing()
            return list(files.values())
        if not known < len(files) <= MAX_FILES:
            raise Undescribed(f"the server does not come to an end within {MAX_FILES} files")
        wanted = ServerReflectionRequest(file_by_filename=missing[0])


async def _answered(
    call: grpc.aio.StreamStreamCall[ServerReflectionRequest, ServerReflectionResponse], service: str
) -> AsyncIterator[FileDescriptorProto]:
    answer = await call.read()
    if not isinstance(answer, ServerReflectionResponse):
        code = await call.code()
        ending = _NoReflection if code is grpc.StatusCode.UNIMPLEMENTED else Undescribed
        raise ending(f"the server ended its description with {code.name}")
    if answer.HasField("error_response"):
        raise MethodUnknown(f"the server has no {service}: {answer.error_response.error_message}")
    if not answer.file_descriptor_response.file_descriptor_proto:
        raise Undescribed("the server's description is empty")
    for data in answer.file_descriptor_response.file_descriptor_proto:
        try:
            yield FileDescriptorProto.FromString(data)
        except DecodeError as error:
            raise Undescribed("the server's description cannot be read") from error
