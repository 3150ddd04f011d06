import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from ipaddress import ip_network
from typing import Any, cast

import pytest
from perdure import Cancellation
from perdure_contracts.internal.v1 import coordinator_service_pb2 as pb
from perdure_contracts.internal.v1 import dispatch_pb2
from perdure_worker.effect_calls import EffectCalls
from perdure_worker.egress.egress import Egress, EgressSettings
from perdure_worker.executors.http import HttpExecutor, HttpSettings
from perdure_worker.executors.http_calls import CallLimits
from perdure_worker.executors.port import TryContext
from perdure_worker.outcome import Completed, Effect, ErrorClass, Failed, Outcome

from tests.integration.worker.fake_engine import SHORT_LEASE_MS, Stage, grant

NO_EFFECTS = cast(EffectCalls, None)
"""These calls ride: nothing is begun by itself."""

KEY = "run/node/http"


@dataclass
class Provider:
    """An HTTP server that answers with fixed bytes and keeps what it was sent."""

    port: int = 0
    answer: bytes = b"HTTP/1.1 204 No Content\r\n\r\n"
    heads: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mail"

    def answers(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Answer with this from now on; underscores in header names are dashes."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"{name}: {value}" for name, value in named.items()]
        lines.append(f"content-length: {len(body)}")
        self.answer = "\r\n".join([f"HTTP/1.1 {status} X", *lines, "", ""]).encode() + body

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = head.partition("content-length: ")[2].partition("\r\n")[0]
        self.bodies.append(await reader.readexactly(int(length or 0)))
        self.heads.append(head)
        self.arrived.set()
        await self.may_answer.wait()
        writer.write(self.answer)
        writer.close()


@asynccontextmanager
async def provider_server() -> AsyncIterator[Provider]:
    provider = Provider()
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0)
    provider.port = server.sockets[0].getsockname()[1]
    provider.may_answer.set()
    async with server:
        yield provider


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    async with provider_server() as provider:
        yield provider


Run = Callable[..., Any]


@pytest.fixture
async def run() -> AsyncIterator[Run]:
    egress = Egress(EgressSettings([ip_network("127.0.0.0/8")], "", lookups=4))
    limits = CallLimits(connect=5.0, read=30.0, max_response=100_000)
    executor = HttpExecutor(HttpSettings(limits, total=30.0, connections=4), egress, NO_EFFECTS)
    await executor.start()

    async def run(request: dict[str, Any] | bytes, seconds: float | None = None) -> Outcome:
        deadline = None if seconds is None else time.monotonic() + seconds
        return await executor.run(http_grant(request), TryContext(deadline, Cancellation()))

    yield run
    await executor.stop()
    await egress.stop()


def http_grant(request: dict[str, Any] | bytes, **fields: Any) -> dispatch_pb2.StepGrant:
    data = request if isinstance(request, bytes) else json.dumps(request).encode()
    effect = dispatch_pb2.EffectGrant(key=KEY, kind="provider", calls=1)
    kind = dispatch_pb2.STEP_KIND_HTTP
    usual: dict[str, Any] = {"kind": kind, "input": data, "effect": effect, "handler": ""}
    return grant(**(usual | fields))


def post(provider: Provider, **more: Any) -> dict[str, Any]:
    return {"method": "POST", "url": provider.url, **more}


async def test_r12_a_json_body_goes_out_byte_for_byte_under_the_effect_key(
    provider: Provider, run: Run
) -> None:
    body = b'{ "n" : 18446744073709551617, "s":"\\u0000\\ud800",\n "a":1.10}'
    request = b'{"method":"POST","url":"%s","body":%s}' % (provider.url.encode(), body)
    outcome = await run(request)
    assert outcome == Completed(b'{"status":204,"headers":{},"body":null}', Effect.PERFORMED)
    assert provider.bodies == [body]
    assert f"idempotency-key: {KEY}" in provider.heads[0]
    assert "content-type: application/json" in provider.heads[0]


async def test_r12_a_json_answer_is_taken_byte_for_byte(provider: Provider, run: Run) -> None:
    body = b'{ "n" : 18446744073709551617, "s":"\\ud800" }'
    provider.answers(200, body, content_type="application/json; charset=utf-8")
    outcome = await run(post(provider))
    head = b'{"status":200,"headers":{"content-type":"application/json; charset=utf-8"},"body":'
    assert outcome.output == head + body + b"}"


async def test_an_answer_that_is_no_json_becomes_text(provider: Provider, run: Run) -> None:
    provider.answers(200, b"not \xff json", content_type="application/json")
    outcome = await run(post(provider))
    assert json.loads(outcome.output)["body"] == "not \ufffd json"


async def test_headers_and_query_of_the_definition_are_sent(provider: Provider, run: Run) -> None:
    headers = {"Idempotency-Key": "mine", "X-Count": 7, "Content-Type": "text/plain"}
    await run(post(provider, headers=headers, query={"q": "ü &", "n": 2**70}, body="text"))
    head = provider.heads[0]
    assert head.startswith(f"post /mail?q=%c3%bc+%26&n={2**70} http/1.1\r\n")
    assert "idempotency-key: mine" in head
    assert KEY not in head
    assert "x-count: 7" in head
    assert "content-type: text/plain" in head


@pytest.mark.parametrize(
    ("status", "kind", "effect"),
    [
        (301, ErrorClass.PERMANENT, Effect.UNKNOWN),
        (400, ErrorClass.PERMANENT, Effect.NOT_PERFORMED),
        (401, ErrorClass.AUTHORISATION, Effect.NOT_PERFORMED),
        (403, ErrorClass.AUTHORISATION, Effect.NOT_PERFORMED),
        (404, ErrorClass.PERMANENT, Effect.NOT_PERFORMED),
        (408, ErrorClass.RETRYABLE, Effect.UNKNOWN),
        (409, ErrorClass.RETRYABLE, Effect.UNKNOWN),
        (429, ErrorClass.RATE_LIMITED, Effect.NOT_PERFORMED),
        (500, ErrorClass.RETRYABLE, Effect.UNKNOWN),
        (503, ErrorClass.RETRYABLE, Effect.UNKNOWN),
    ],
)
async def test_what_a_status_means_for_retries_and_for_the_effect(
    provider: Provider, run: Run, status: int, kind: ErrorClass, effect: Effect
) -> None:
    provider.answers(status, b"why")
    outcome = await run(post(provider))
    assert (outcome.code, outcome.error_class, outcome.effect) == (f"HTTP_{status}", kind, effect)
    assert json.loads(outcome.details) == {"status": status, "body": "why"}


async def test_a_status_that_the_definition_accepts_ends_the_step_well(
    provider: Provider, run: Run
) -> None:
    provider.answers(404)
    outcome = await run(post(provider, success=[200, 404]))
    assert outcome.effect is Effect.PERFORMED
    assert json.loads(outcome.output)["status"] == 404


async def test_a_2xx_that_the_definition_does_not_accept_fails_and_was_performed(
    provider: Provider, run: Run
) -> None:
    outcome = await run(post(provider, success=[201]))
    assert (outcome.code, outcome.effect) == ("HTTP_204", Effect.PERFORMED)


async def test_f043_retry_after_in_seconds_is_told(provider: Provider, run: Run) -> None:
    provider.answers(429, retry_after="90")
    assert (await run(post(provider))).retry_after == 90.0


async def test_f043_f105_a_retry_after_date_counts_from_the_servers_own_date(
    provider: Provider, run: Run
) -> None:
    there = datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC)
    due = there + timedelta(seconds=120)
    provider.answers(
        503, date=format_datetime(there, usegmt=True), retry_after=format_datetime(due, usegmt=True)
    )
    assert (await run(post(provider))).retry_after == 120.0


async def test_a_redirect_is_not_followed_and_no_cookie_is_kept(
    provider: Provider, run: Run
) -> None:
    provider.answers(302, location="/elsewhere", set_cookie="session=secret")
    await run(post(provider))
    await run(post(provider))
    assert [head.split(" ")[1] for head in provider.heads] == ["/mail", "/mail"]
    assert "secret" not in provider.heads[1]


async def test_a_refused_connection_was_not_performed(run: Run) -> None:
    async with provider_server() as gone:
        url = gone.url
    outcome = await run({"method": "POST", "url": url})
    assert (outcome.code, outcome.error_class) == ("CONNECT_FAILED", ErrorClass.RETRYABLE)
    assert outcome.effect is Effect.NOT_PERFORMED


async def test_protocol_p4_a_break_after_sending_is_unknown(provider: Provider, run: Run) -> None:
    provider.answer = b""
    outcome = await run(post(provider))
    assert (outcome.code, outcome.effect) == ("CONNECTION_BROKEN", Effect.UNKNOWN)


async def test_protocol_p4_a_time_out_after_sending_is_unknown(
    provider: Provider, run: Run
) -> None:
    provider.may_answer.clear()
    outcome = await run(post(provider), seconds=0.3)
    assert (outcome.code, outcome.effect) == ("TIMEOUT", Effect.UNKNOWN)
    provider.may_answer.set()


async def test_a_body_over_the_limit_fails_and_says_what_became_of_the_effect(
    provider: Provider, run: Run
) -> None:
    provider.answers(200, b"x" * 200_000)
    outcome = await run(post(provider))
    assert (outcome.code, outcome.error_class) == ("RESPONSE_TOO_LARGE", ErrorClass.PERMANENT)
    assert outcome.effect is Effect.PERFORMED


@pytest.mark.parametrize(
    "request_json",
    [
        b"[]",
        b'{"method":"GET"}',
        b'{"method":"GET","url":"/relative"}',
        b'{"method":"GET","url":"ftp://host/"}',
        b'{"method":"GET","url":"URL","headers":{"x":"a\\nb"}}',
        b'{"method":"GET","url":"URL","headers":{"x":"\\u00fc"}}',
    ],
)
async def test_a_request_that_cannot_be_sent_is_a_permanent_failure(
    run: Run, provider: Provider, request_json: bytes
) -> None:
    outcome = await run(request_json.replace(b"URL", provider.url.encode()))
    assert (outcome.code, outcome.error_class) == ("REQUEST_INVALID", ErrorClass.PERMANENT)
    assert outcome.effect is Effect.NOT_PERFORMED


async def test_neither_an_error_nor_a_log_tells_the_query_of_a_url(
    provider: Provider, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    provider.answers(500)
    outcome: Failed = await run(post(provider, url=provider.url + "?token=secret"))
    assert provider.url in outcome.message
    assert "secret" not in outcome.message
    assert "secret" not in caplog.text


async def test_protocol_p4_the_result_of_a_call_whose_lease_was_lost_still_settles_its_effect(
    stage: Stage, provider: Provider
) -> None:
    provider.may_answer.clear()
    lost = asyncio.Event()

    def lose(_: dispatch_pb2.StepLease) -> pb.RenewLeaseResult:
        lost.set()
        return pb.RenewLeaseResult(status=pb.RENEW_STATUS_LOST)

    stage.engine.answer_renew = lose
    await stage.start()
    await stage.ready(http_grant(post(provider), lease_ms=SHORT_LEASE_MS))
    await lost.wait()
    provider.may_answer.set()
    await stage.engine.until(lambda: stage.engine.reports)
    report = stage.engine.reports[0]
    assert report.effect_outcome == dispatch_pb2.EFFECT_OUTCOME_PERFORMED
    assert json.loads(report.output)["status"] == 204
    assert len(provider.heads) == 1


async def test_a_call_without_a_recorded_effect_reports_none(
    stage: Stage, provider: Provider
) -> None:
    await stage.start()
    request = json.dumps({"method": "GET", "url": provider.url}).encode()
    report = await stage.one_result(
        grant(kind=dispatch_pb2.STEP_KIND_HTTP, input=request, traceparent="00-1-2-01")
    )
    assert report.effect_outcome == dispatch_pb2.EFFECT_OUTCOME_UNSPECIFIED
    assert "idempotency-key" not in provider.heads[0]
    assert "traceparent: 00-1-2-01" in provider.heads[0]
