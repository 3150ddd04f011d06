"""Hostile requests to every public method: each is refused by the table, and nothing is stored."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.rpc.error_details_pb2 import (  # type: ignore[import-untyped]
    BadRequest,
    ErrorInfo,
    RetryInfo,
)
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from perdure import Client
from perdure_ingest.http.contracts import public_files
from perdure_runtime.reasons import Code, Reason
from perdure_runtime.rpc.errors import DETAILS_KEY, DOMAIN
from perdure_testkit.database import Database
from perdure_testkit.hostile import NUL, Attack, attacks, malformed, spoil

METHODS = [
    method
    for file in public_files()
    for service in file.services_by_name.values()
    for method in service.methods
]
READS = re.compile(r"Get|List|Watch|Check|Validate|Diagnose")
FAULTS = (Code.INTERNAL, Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.UNIMPLEMENTED)
TEXTS = re.compile(r"NUL|too long|not UTF-8|nested")
LAST = "page_token"
"""Is read when nothing else is wrong, as it is good for one query only."""

TABLES = """
SELECT c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p') AND NOT c.relispartition
"""


@dataclass(frozen=True, slots=True)
class Door:
    """Where requests go, and what they present there."""

    channel: grpc.aio.Channel
    api_key: str


@pytest.fixture
async def door(address: str, api_key: str) -> AsyncIterator[Door]:
    async with grpc.aio.insecure_channel(address) as channel:
        yield Door(channel, api_key)


@pytest.fixture
async def unchanged(database: Database, address: str, api_key: str) -> AsyncIterator[None]:
    """See that the test leaves no row more, and that runs are started after it as before."""
    before = await rows(database)
    yield
    assert await rows(database) == before
    async with Client(address, api_key=api_key, timeout=20.0) as client:
        await client.publish_workflow(json.dumps({"name": "w", "nodes": {"a": {"transform": 1}}}))
        started = await client.start_run("w")
        assert (await client.wait_run(started.run_id, 20.0)).output == b'{"a":1}'


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("filled", [False, True], ids=["alone", "beside_names"])
async def test_f102_a_hostile_field_is_refused_by_the_table_and_stored_nowhere(
    door: Door, filled: bool
) -> None:
    found = []
    for method in METHODS:
        for attack in attacks(method.input_type, filled=filled):
            error = await answered(door, method, attack.request.SerializeToString())
            problem = wrong(method, attack, error)
            if problem:
                found.append(f"{method.name} {attack.field} {attack.how}: {problem}")
    assert found == [], "\n".join(found)


@pytest.mark.usefixtures("unchanged")
async def test_everything_that_is_wrong_with_a_request_is_told_at_once(door: Door) -> None:
    found = []
    for method in METHODS:
        request, spoilt = spoil(method.input_type)
        error = await answered(door, method, request.SerializeToString())
        told = fields_of(error) if error is not None else set()
        if not spoilt <= told:
            found.append(f"{method.name}: {sorted(spoilt - told)} besides {sorted(told)}")
    assert found == [], "\n".join(found)


@pytest.mark.usefixtures("unchanged")
async def test_bytes_that_are_no_message_are_refused_by_every_method(door: Door) -> None:
    found = []
    for method in METHODS:
        for how, sent in malformed(method.input_type):
            error = await answered(door, method, sent)
            if error is None or reason_of(error) is not Reason.MESSAGE_MALFORMED:
                found.append(f"{method.name} {how}: {error}")
    assert found == [], "\n".join(found)


@pytest.mark.usefixtures("unchanged")
async def test_f091_a_message_of_ten_megabytes_is_not_read(door: Door) -> None:
    sent = bytes(10 * 1024 * 1024)
    for method in {one.containing_service.full_name: one for one in METHODS}.values():
        error = await answered(door, method, sent)
        assert error is not None
        assert (error.code(), "larger than max" in (error.details() or "")) == (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            True,
        )


async def rows(database: Database) -> dict[str, int]:
    """Count the rows of every table."""
    connection = await database.connect()
    names = [row["relname"] for row in await connection.fetch(TABLES)]
    return {name: await connection.fetchval(f'SELECT count(*) FROM "{name}"') for name in names}


async def answered(
    door: Door, method: MethodDescriptor, sent: bytes
) -> grpc.aio.AioRpcError | None:
    """Send bytes to a method; return what it failed with, None if it did not."""
    path = f"/{method.containing_service.full_name}/{method.name}"
    channel, presented = door.channel, (("authorization", f"Bearer {door.api_key}"),)
    call: Any = channel.unary_stream if method.server_streaming else channel.unary_unary
    try:
        answer = call(path)(sent, timeout=20.0, metadata=presented)
        await (answer.read() if method.server_streaming else answer)
    except grpc.aio.AioRpcError as error:
        return error
    return None


def wrong(
    method: MethodDescriptor, attack: Attack, error: grpc.aio.AioRpcError | None
) -> str | None:
    """Return what is wrong with the answer to an attack, None for nothing."""
    if error is None:
        is_harmless = NUL not in attack.how and "long" not in attack.how
        return None if READS.match(method.name) and is_harmless else "it was answered"
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
