"""Where HTTP calls of a worker go: the guard, TLS, redirects, limits (design 8 and 14)."""

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Any, cast

import pytest
from perdure import Cancellation
from perdure_contracts.internal.v1 import dispatch_pb2
from perdure_runtime.errors import InvalidArgument
from perdure_testkit.provider import (
    BREAK_IN_ANSWER,
    DROP_BEFORE_WORK,
    Behaviour,
    Provider,
    huge,
    too_many,
)
from perdure_testkit.tls import Authority
from perdure_worker.effect_calls import EffectCalls
from perdure_worker.egress.addresses import AddressRule
from perdure_worker.egress.egress import Egress, EgressSettings
from perdure_worker.egress.lookup import Lookup
from perdure_worker.executors.http import HttpExecutor, HttpSettings
from perdure_worker.executors.http_calls import CallLimits
from perdure_worker.executors.port import TryContext
from perdure_worker.outcome import Completed, Effect, ErrorClass, Outcome

from tests.integration.worker.fake_engine import grant

NO_EFFECTS = cast(EffectCalls, None)
"""These calls ride: nothing is begun by itself."""

LOOPBACK = ip_network("127.0.0.0/8")
MAX_RESPONSE = 100_000


@dataclass
class Caller:
    """An executor whose names are what a test says."""

    egress: Egress
    executor: HttpExecutor
    names: dict[str, list[Sequence[str]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def resolve(self, host: str, _: int) -> Sequence[str]:
        self.asked.append(host)
        answers = self.names.get(host)
        if answers is None:
            return [host]
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def call(
        self, method: str, url: str, *, seconds: float = 20.0, effect: str = "", **more: Any
    ) -> Outcome:
        found = grant(
            kind=dispatch_pb2.STEP_KIND_HTTP,
            input=json.dumps({"method": method, "url": url, **more}).encode(),
            effect=dispatch_pb2.EffectGrant(key="k", kind=effect, calls=1) if effect else None,
        )
        deadline = time.monotonic() + seconds
        return await self.executor.run(found, TryContext(deadline, Cancellation()))


async def caller(allowed: list[Any], ca_file: str = "") -> Caller:
    egress = Egress(EgressSettings(allowed, ca_file, lookups=4))
    limits = CallLimits(connect=5.0, read=5.0, max_response=MAX_RESPONSE)
    found = Caller(
        egress, HttpExecutor(HttpSettings(limits, 30.0, connections=4), egress, NO_EFFECTS)
    )
    egress.lookup = Lookup(found.resolve, AddressRule(allowed))
    await found.executor.start()
    return found


@pytest.fixture
async def callers() -> AsyncIterator[Any]:
    made: list[Caller] = []

    async def make(allowed: list[Any], ca_file: str = "") -> Caller:
        made.append(await caller(allowed, ca_file))
        return made[-1]

    yield make
    for one in made:
        await one.executor.stop()
        await one.egress.stop()


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    found = Provider()
    await found.start()
    yield found
    await found.stop()


def named(provider: Provider, host: str, path: str = "/") -> str:
    return provider.url(path).replace("127.0.0.1", host)


async def test_an_address_of_the_inside_is_refused_and_nothing_was_performed(
    callers: Any, provider: Provider
) -> None:
    outside = await callers([])
    outcome = await outside.call("POST", provider.url("/"), effect="provider")
    assert (outcome.code, outcome.error_class) == ("ADDRESS_REFUSED", ErrorClass.PERMANENT)
    assert outcome.effect is Effect.NOT_PERFORMED
    assert provider.calls == []


async def test_the_address_that_was_checked_is_the_one_that_is_called(
    callers: Any, provider: Provider
) -> None:
    inside = await callers([LOOPBACK])
    # The name would lead elsewhere if anybody asked a second time.
    inside.names["shop.example"] = [["127.0.0.1"], ["10.0.0.1"]]
    assert isinstance(await inside.call("GET", named(provider, "shop.example")), Completed)
    assert inside.asked == ["shop.example"]
    assert provider.calls[0].headers["host"].startswith("shop.example:")
    # The next connection is checked again, and there the rebound name is refused.
    outcome = await inside.call("GET", named(provider, "shop.example"))
    assert outcome.code == "ADDRESS_REFUSED"


async def test_an_unreachable_address_of_a_name_is_passed_over(
    callers: Any, provider: Provider
) -> None:
    inside = await callers([LOOPBACK])
    inside.names["shop.example"] = [["127.0.0.2", "127.0.0.1"]]
    assert isinstance(await inside.call("GET", named(provider, "shop.example")), Completed)


async def test_a_redirect_into_the_inside_is_refused(callers: Any, provider: Provider) -> None:
    only_here = await callers([ip_network("127.0.0.1/32")])
    provider.script("/", Behaviour(status=302, headers={"Location": "http://169.254.169.254/key"}))
    outcome = await only_here.call("GET", provider.url("/"))
    assert outcome.code == "ADDRESS_REFUSED"


async def test_a_redirect_to_another_host_takes_no_credentials_along(
    callers: Any, provider: Provider
) -> None:
    inside = await callers([LOOPBACK])
    inside.names["other.example"] = [["127.0.0.1"]]
    there = named(provider, "other.example", "/there")
    provider.script("/", Behaviour(status=302, headers={"Location": there}))
    headers = {"Authorization": "secret", "X-Key": "secret", "Accept-Language": "de"}
    await inside.call("GET", provider.url("/"), headers=headers)
    first, second = provider.calls
    assert first.headers["authorization"] == "secret"
    assert second.path == "/there"
    assert "secret" not in second.headers.values()
    assert second.headers["accept-language"] == "de"


async def test_redirects_are_bounded_and_a_post_follows_none(
    callers: Any, provider: Provider
) -> None:
    inside = await callers([LOOPBACK])
    again = Behaviour(status=307, headers={"Location": "/"})
    provider.script("/", *[again] * 20)
    outcome = await inside.call("GET", provider.url("/"))
    assert outcome.code == "TOO_MANY_REDIRECTS"
    assert len(provider.calls) == 6
    outcome = await inside.call("POST", provider.url("/"), effect="provider")
    assert (outcome.code, outcome.effect) == ("HTTP_307", Effect.UNKNOWN)
    assert len(provider.calls) == 7


async def test_a_name_without_an_address_was_not_called(callers: Any) -> None:
    inside = await callers([LOOPBACK])
    inside.names["nowhere.example"] = [[]]
    outcome = await inside.call("POST", "http://nowhere.example/", effect="none")
    assert (outcome.code, outcome.error_class) == ("NAME_UNRESOLVED", ErrorClass.RETRYABLE)
    assert outcome.effect is Effect.NOT_PERFORMED


async def test_proxies_of_the_environment_are_not_used(
    callers: Any, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    inside = await callers([LOOPBACK])
    assert isinstance(await inside.call("GET", provider.url("/")), Completed)


@dataclass
class SecureServer:
    port: int = 0
    heads: list[bytes] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
async def secure(authority: Authority) -> AsyncIterator[SecureServer]:
    found = SecureServer()
    context = authority.server("shop.example")
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0, ssl=context)
    found.port = server.sockets[0].getsockname()[1]
    async with server:
        yield found


async def test_an_authority_of_ones_own_is_believed_by_config(
    callers: Any, authority: Authority, secure: SecureServer
) -> None:
    inside = await callers([LOOPBACK], str(authority.file))
    inside.names["shop.example"] = [["127.0.0.1"]]
    outcome = await inside.call("GET", f"https://shop.example:{secure.port}/")
    assert isinstance(outcome, Completed)


@pytest.mark.parametrize("host", ["shop.example", "thief.example"])
async def test_who_does_not_prove_the_name_that_was_asked_for_gets_nothing(
    callers: Any, authority: Authority, secure: SecureServer, host: str
) -> None:
    is_unknown = host == "shop.example"
    inside = await callers([LOOPBACK], "" if is_unknown else str(authority.file))
    inside.names[host] = [["127.0.0.1"]]
    outcome = await inside.call("POST", f"https://{host}:{secure.port}/", effect="none")
    assert (outcome.code, outcome.effect) == ("TLS_FAILED", Effect.NOT_PERFORMED)
    assert secure.heads == []


def test_a_file_without_certificates_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="egress_ca_file"):
        Egress(EgressSettings([], str(tmp_path / "none.pem"), lookups=1))
    (tmp_path / "empty.pem").write_text("nothing")
    with pytest.raises(InvalidArgument, match="egress_ca_file"):
        Egress(EgressSettings([], str(tmp_path / "empty.pem"), lookups=1))


async def test_a_connection_that_is_not_there_in_time_was_not_performed(callers: Any) -> None:
    inside = await callers([LOOPBACK])
    is_gone = asyncio.Event()

    async def never_greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        is_gone.set()

    server = await asyncio.start_server(never_greet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        outcome = await inside.call(
            "POST", f"https://127.0.0.1:{port}/", effect="none", timeouts={"connect": 0.2}
        )
        await is_gone.wait()
    assert (outcome.code, outcome.effect) == ("TLS_FAILED", Effect.NOT_PERFORMED)


async def test_protocol_p4_an_answer_that_does_not_go_on_is_unknown(
    callers: Any, provider: Provider
) -> None:
    inside = await callers([LOOPBACK])
    silent = asyncio.Event()
    provider.script("/", Behaviour(delay=silent))
    outcome = await inside.call("POST", provider.url("/"), effect="none", timeouts={"read": 0.2})
    assert (outcome.code, outcome.effect) == ("TIMEOUT", Effect.UNKNOWN)
    silent.set()


async def test_an_answer_that_drips_ends_with_the_time_of_the_whole_call(
    callers: Any, provider: Provider
) -> None:
    inside = await callers([LOOPBACK])
    provider.script("/", Behaviour(body=b"x" * 50_000, pace=0.1))
    outcome = await inside.call("POST", provider.url("/"), effect="provider", seconds=0.5)
    assert (outcome.code, outcome.effect) == ("TIMEOUT", Effect.UNKNOWN)


async def test_protocol_p4_a_break_within_the_answer_is_unknown(
    callers: Any, provider: Provider
) -> None:
    inside = await callers([LOOPBACK])
    provider.script("/", BREAK_IN_ANSWER, DROP_BEFORE_WORK)
    for _ in range(2):
        outcome = await inside.call("POST", provider.url("/"), effect="provider")
        assert (outcome.code, outcome.effect) == ("CONNECTION_BROKEN", Effect.UNKNOWN)


async def test_a_no_stands_though_its_body_breaks_off_or_is_huge(
    callers: Any, provider: Provider
) -> None:
    inside = await callers([LOOPBACK])
    no = Behaviour(works=False, status=422, body=b"why " * MAX_RESPONSE)
    provider.script("/", no, Behaviour(works=False, status=422, cut=3))
    long = await inside.call("POST", provider.url("/"), effect="none")
    assert (long.code, long.effect) == ("HTTP_422", Effect.NOT_PERFORMED)
    assert json.loads(long.details)["body"].startswith("why why")
    broken = await inside.call("POST", provider.url("/"), effect="none")
    assert (broken.code, broken.effect) == ("HTTP_422", Effect.NOT_PERFORMED)


async def test_a_body_over_the_limit_was_performed_and_is_not_asked_for_again(
    callers: Any, provider: Provider
) -> None:
    inside = await callers([LOOPBACK])
    provider.script("/", huge(MAX_RESPONSE + 1))
    outcome = await inside.call("POST", provider.url("/"), effect="none")
    assert (outcome.code, outcome.error_class) == ("RESPONSE_TOO_LARGE", ErrorClass.PERMANENT)
    assert outcome.effect is Effect.PERFORMED


def packed(body: bytes, encoding: str = "gzip") -> Behaviour:
    headers = {"Content-Encoding": encoding, "Content-Type": "application/json"}
    return Behaviour(body=body, headers=headers)


async def test_r12_a_packed_answer_is_unpacked_byte_for_byte(
    callers: Any, provider: Provider
) -> None:
    inside = await callers([LOOPBACK])
    body = b'{ "n" : 18446744073709551617 }'
    provider.script("/", packed(gzip.compress(body[:9]) + gzip.compress(body[9:])))
    outcome = await inside.call("GET", provider.url("/"))
    assert outcome.output.endswith(b'"body":' + body + b"}")
    assert provider.calls[0].headers["accept-encoding"] == "gzip"


async def test_a_small_body_that_unpacks_to_a_huge_one_is_too_large(
    callers: Any, provider: Provider
) -> None:
    inside = await callers([LOOPBACK])
    provider.script("/", packed(gzip.compress(b"0" * 50_000_000)))
    assert (await inside.call("GET", provider.url("/"))).code == "RESPONSE_TOO_LARGE"


@pytest.mark.parametrize(
    ("body", "encoding"),
    [(b"no gzip", "gzip"), (gzip.compress(b"cut")[:-4], "gzip"), (b"", "br")],
    ids=["no gzip", "cut", "not asked for"],
)
async def test_a_body_that_cannot_be_unpacked_is_a_named_error(
    callers: Any, provider: Provider, body: bytes, encoding: str
) -> None:
    inside = await callers([LOOPBACK])
    provider.script("/", packed(body, encoding))
    outcome = await inside.call("POST", provider.url("/"), effect="none")
    assert (outcome.code, outcome.effect) == ("RESPONSE_UNREADABLE", Effect.PERFORMED)


async def test_f043_too_many_requests_were_refused_and_say_how_long_to_wait(
    callers: Any, provider: Provider
) -> None:
    inside = await callers([LOOPBACK])
    provider.script("/", too_many("7"))
    outcome = await inside.call("POST", provider.url("/"), effect="none")
    assert (outcome.error_class, outcome.retry_after) == (ErrorClass.RATE_LIMITED, 7.0)
    assert outcome.effect is Effect.NOT_PERFORMED


async def test_a_call_that_may_not_be_repeated_has_a_connection_of_its_own(callers: Any) -> None:
    connections: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(0)
        while await reader.readline():
            while (await reader.readline()).strip():
                pass
            connections[-1] += 1
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        writer.close()

    inside = await callers([LOOPBACK])
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with server:
        for effect in ("", "provider", "none", "none"):
            assert isinstance(await inside.call("POST", url, effect=effect), Completed)
        await inside.executor.stop()
    assert connections == [2, 1, 1]
