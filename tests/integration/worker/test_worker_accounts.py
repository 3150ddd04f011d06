"""What a handler gets by `ctx.connection`: credentials under its lease, calls under all rules."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import perdure
import pytest
from perdure_contracts.internal.v1 import connections_pb2 as pb
from perdure_contracts.internal.v1 import coordinator_service_pb2 as hot
from perdure_contracts.internal.v1 import dispatch_pb2
from perdure_contracts.internal.v1.dispatch_pb2 import ConnectionGrant
from perdure_testkit.provider import Behaviour, Provider

from tests.integration.worker.fake_engine import Stage, grant

SECRET = "top-secret-token"

Ask = Callable[[perdure.HandlerContext, Any], Any]


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    provider = Provider()
    await provider.start()
    yield provider
    await provider.stop()


def account(provider: Provider, name: str = "crm", **fields: Any) -> ConnectionGrant:
    usual: dict[str, Any] = {
        "name": name,
        "generation": 1,
        "base_url": provider.url("/"),
        "headers": {"authorization": f"Bearer {SECRET}"},
        "credentials": {"token": SECRET},
    }
    return ConnectionGrant(**(usual | fields))


def serving(
    place: str, name: str, method: str = "GET", url: str = "/contacts", **asked: Any
) -> perdure.Handlers:
    """A handler that asks the provider of an account, in a thread or in a loop."""

    def plain(_: Any, ctx: perdure.HandlerContext) -> Any:
        answer = ctx.connection(name).request(method, url, **asked)
        return {"status": answer.status, "body": answer.json()}

    async def coroutine(_: Any, ctx: perdure.HandlerContext) -> Any:
        connection = await ctx.connection(name)
        answer = await connection.request(method, url, **asked)
        return {"status": answer.status, "body": answer.json()}

    handlers = perdure.Handlers()
    handlers.add("work", plain if place == "thread" else coroutine)
    return handlers


def opening(stage: Stage, connection: ConnectionGrant) -> None:
    stage.engine.answer_open = lambda request: pb.OpenConnectionResponse(
        status=pb.OPEN_CONNECTION_STATUS_OPENED, connection=connection
    )


def failure(report: hot.ReportResultItem) -> tuple[str, str]:
    return getattr(report.failure, "class"), report.failure.code


both = pytest.mark.parametrize("place", ["thread", "loop"])


@both
async def test_the_account_that_the_node_names_is_there_without_a_call(
    stage: Stage, provider: Provider, place: str
) -> None:
    await stage.start(serving(place, "", query={"email": "ada@example.org"}))
    report = await stage.one_result(grant(connection=account(provider)))
    (call,) = provider.calls_of("/contacts")
    assert call.headers["authorization"] == f"Bearer {SECRET}"
    assert call.query == {"email": "ada@example.org"}
    assert json.loads(report.output)["status"] == 200
    assert stage.engine.opened == []


@both
async def test_another_account_is_opened_once_under_the_lease_of_the_step(
    stage: Stage, provider: Provider, place: str
) -> None:
    opening(stage, account(provider, "billing"))
    await stage.start(serving(place, "billing", "POST", "/bills", json={"cents": 2**64 + 1}))
    report = await stage.one_result(grant())
    (opened,) = stage.engine.opened
    assert (opened.name, opened.lease.run_id) == ("billing", report.lease.run_id)
    assert opened.lease.lease_id == report.lease.lease_id
    (call,) = provider.calls_of("/bills")
    assert call.body == b'{"cents": 18446744073709551617}'
    assert call.headers["content-type"] == "application/json"
    assert call.headers["authorization"] == f"Bearer {SECRET}"


@both
async def test_p8_what_a_provider_refuses_is_reported_so_that_the_step_is_parked(
    stage: Stage, provider: Provider, place: str
) -> None:
    provider.script("/contacts", Behaviour(works=False, status=401, body=SECRET.encode()))
    await stage.start(serving(place, "crm"))
    report = await stage.one_result(grant(connection=account(provider)))
    assert failure(report) == ("authorisation", "HTTP_401")
    assert (report.connection_generation, report.failure.refused_connection) == (1, "")
    assert SECRET not in str(report)


@both
async def test_p8_a_refusal_of_another_account_names_that_one(
    stage: Stage, provider: Provider, place: str
) -> None:
    opening(stage, account(provider, "billing", generation=3))
    provider.script("/contacts", Behaviour(works=False, status=403))
    await stage.start(serving(place, "billing"))
    report = await stage.one_result(grant(connection=account(provider)))
    assert failure(report) == ("authorisation", "HTTP_403")
    refused = report.failure.refused_connection, report.failure.refused_generation
    assert refused == ("billing", 3)


@pytest.mark.parametrize(
    ("raised", "told"),
    [("billing", ("billing", 3)), ("crm", ("", 0)), ("", ("", 0)), ("other", ("other", 0))],
)
async def test_p8_a_handler_says_whose_credentials_a_client_of_its_own_was_refused(
    stage: Stage, provider: Provider, raised: str, told: tuple[str, int]
) -> None:
    def work(_: Any, ctx: perdure.HandlerContext) -> Any:
        ctx.connection("billing")
        raise perdure.Unauthorised("LOGIN_REFUSED", connection=raised)

    opening(stage, account(provider, "billing", generation=3))
    handlers = perdure.Handlers()
    handlers.add("work", work)
    await stage.start(handlers)
    report = await stage.one_result(grant(connection=account(provider)))
    assert (report.failure.refused_connection, report.failure.refused_generation) == told


@both
async def test_a_provider_that_asks_to_wait_is_reported_with_how_long(
    stage: Stage, provider: Provider, place: str
) -> None:
    answer = Behaviour(works=False, status=429, headers={"Retry-After": "7"})
    provider.script("/contacts", answer)
    await stage.start(serving(place, "crm"))
    report = await stage.one_result(grant(connection=account(provider)))
    assert failure(report) == ("rate_limited", "HTTP_429")
    assert report.failure.retry_after_ms == 7000


async def test_r8_a_refusal_within_an_effect_says_that_nothing_was_done(
    stage: Stage, provider: Provider
) -> None:
    def work(_: Any, ctx: perdure.HandlerContext) -> Any:
        crm = ctx.connection()
        return ctx.effect("mail", lambda key: crm.request("POST", "/mail").json(), keep=60.0)

    provider.script("/mail", Behaviour(works=False, status=403))
    handlers = perdure.Handlers()
    handlers.add("work", work)
    await stage.start(handlers)
    report = await stage.one_result(grant(connection=account(provider)))
    assert failure(report) == ("authorisation", "HTTP_403")
    (settled,) = stage.engine.settled
    assert settled.outcome == dispatch_pb2.EFFECT_OUTCOME_NOT_PERFORMED
    assert SECRET not in str(settled)


async def test_calls_lead_nowhere_that_an_http_step_may_not_lead(
    stage: Stage, provider: Provider
) -> None:
    inside = account(provider, base_url="http://10.0.0.1/")
    await stage.start(serving("thread", "crm"))
    report = await stage.one_result(grant(connection=inside))
    assert failure(report) == ("permanent", "ADDRESS_REFUSED")


async def test_credentials_go_where_the_connection_leads_and_nowhere_else(
    stage: Stage, provider: Provider
) -> None:
    elsewhere = Provider()
    await elsewhere.start()
    await stage.start(serving("thread", "crm", url=elsewhere.url("/steal")))
    report = await stage.one_result(grant(connection=account(provider)))
    assert failure(report) == ("permanent", "REQUEST_INVALID")
    assert elsewhere.calls == []
    await elsewhere.stop()


async def test_a_call_ends_when_its_own_time_is_over(stage: Stage, provider: Provider) -> None:
    never = asyncio.Event()
    provider.script("/contacts", Behaviour(hold=never))
    await stage.start(serving("loop", "crm", timeout=0.1))
    report = await stage.one_result(grant(connection=account(provider)))
    assert failure(report) == ("retryable", "TIMEOUT")
    never.set()


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (pb.OPEN_CONNECTION_STATUS_MISSING, ("permanent", "CONNECTION_NOT_FOUND")),
        (pb.OPEN_CONNECTION_STATUS_UNUSABLE, ("authorisation", "CONNECTION_UNUSABLE")),
    ],
)
async def test_an_account_that_cannot_be_opened_is_a_named_failure(
    stage: Stage, status: pb.OpenConnectionStatus.ValueType, expected: tuple[str, str]
) -> None:
    known = ConnectionGrant(name="billing", generation=3)
    stage.engine.answer_open = lambda request: pb.OpenConnectionResponse(
        status=status, connection=known
    )
    await stage.start(serving("thread", "billing"))
    report = await stage.one_result(grant())
    assert failure(report) == expected
    refused = report.failure.refused_connection, report.failure.refused_generation
    assert refused == (("billing", 3) if expected[0] == "authorisation" else ("", 0))


async def test_a_node_that_names_no_connection_has_none_of_its_own(stage: Stage) -> None:
    await stage.start(serving("thread", ""))
    report = await stage.one_result(grant())
    assert failure(report) == ("permanent", "CONNECTION_NOT_FOUND")
    assert stage.engine.opened == []


async def test_p3_a_handler_whose_lease_is_over_is_given_nothing_and_reports_nothing(
    stage: Stage,
) -> None:
    stage.engine.answer_open = lambda request: pb.OpenConnectionResponse(
        status=pb.OPEN_CONNECTION_STATUS_LOST
    )
    stage.engine.grants[2] = grant(2, handler="other")
    handlers = serving("thread", "billing")
    handlers.add("other", lambda given, ctx: "done")
    await stage.start(handlers)
    await stage.ready(grant(1))
    await stage.engine.until(lambda: stage.engine.opened)
    await stage.hint(2)
    await stage.engine.until(lambda: stage.engine.reports)
    assert [report.lease.step for report in stage.engine.reports] == [2]


async def test_nothing_that_shows_an_account_shows_what_is_secret(
    stage: Stage, provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    def work(_: Any, ctx: perdure.HandlerContext) -> Any:
        crm = ctx.connection()
        assert crm.credentials["token"] == SECRET
        ctx.logger.warning("acting under %s, %r, of %r", crm, crm._account, ctx)
        raise RuntimeError(f"{crm.credentials['token']} is wrong")

    handlers = perdure.Handlers()
    handlers.add("work", work)
    await stage.start(handlers)
    report = await stage.one_result(grant(connection=account(provider)))
    assert SECRET not in str(report)
    assert "***" in report.failure.message
    assert "acting under" in caplog.text
    assert SECRET not in caplog.text
