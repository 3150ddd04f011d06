"""The coordinator sends signals, to runs and by keys, and what runs emit (protocol p6)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from uuid import UUID, uuid4

import asyncpg
import grpc
import pytest
from perdure_contracts.internal.v1 import coordinator_service_pb2 as hot
from perdure_contracts.internal.v1.signals_pb2 import SignalContent
from perdure_runtime.errors import PerdureError, Reason
from perdure_runtime.fail_points import Raise, arm
from perdure_runtime.rpc.errors import from_status
from perdure_testkit.calls import Calls
from perdure_testkit.database import Database

WAITS = "name: waits\nnodes: {a: {signal: {name: go, key: '${input.key}'}}}"
TWICE = "name: twice\nnodes: {a: {signal: {name: go}}, b: {signal: {name: go}, needs: [a]}}"
CALLS = """
name: calls
nodes:
  ask: {transform: "${run.callback('answer')}"}
  answer: {needs: [ask], signal: {name: answer}}
  after: {needs: [answer], task: {handler: x}}
"""
EMITS = "name: emits\nnodes: {a: {emit: {name: go, key: '${input.key}', data: '${input.data}'}}}"
DUE = "SELECT timer_id, run_id, org FROM timers WHERE due_at <= clock_timestamp() ORDER BY timer_id"


@pytest.fixture
async def rows(database: Database) -> asyncpg.Connection:
    return await database.connect()


@pytest.fixture
async def waiting(calls: Calls) -> UUID:
    """A run that waits by the key `k`."""
    await calls.publish(WAITS)
    return await calls.start("waits", input=b'{"key": "k"}')


async def output(rows: asyncpg.Connection, run: UUID, step: int = 1) -> bytes | None:
    """Return the output of a step."""
    found: bytes | None = await rows.fetchval(
        "SELECT output FROM steps WHERE run_id = $1 AND step = $2", run, step
    )
    return found


async def fire(calls: Calls, rows: asyncpg.Connection) -> Sequence[int]:
    """Deliver what is due once; return the statuses."""
    due = await rows.fetch(DUE)
    refs = [
        hot.TimerRef(timer_id=row["timer_id"], run_id=str(row["run_id"]), org=row["org"])
        for row in due
    ]
    return [result.status for result in await calls.fire(*refs)]


def refusal(result: hot.SignalResult) -> PerdureError:
    assert result.HasField("error"), result
    return from_status(result.error, grpc.StatusCode.UNKNOWN)


@pytest.mark.parametrize("by_key", [False, True])
async def test_a_signal_ends_the_step_that_waits_and_its_repeat_says_so(
    calls: Calls, rows: asyncpg.Connection, waiting: UUID, by_key: bool
) -> None:
    item = calls.signal_item("go", "k" if by_key else waiting, b'{"n": 1}', signal_id="one")

    (first,) = await calls.signal(item)
    assert (first.is_new, first.run_id) == (True, str(waiting))
    assert await output(rows, waiting) == b'{"n": 1}'

    (again,) = await calls.signal(item)
    assert (again.is_new, again.run_id) == (False, str(waiting))


async def test_the_answers_of_one_call_come_in_order_and_each_for_itself(
    calls: Calls, waiting: UUID
) -> None:
    answers = await calls.signal(
        calls.signal_item("go", uuid4()),
        calls.signal_item("go", "nobodys"),
        calls.signal_item("go", waiting),
    )
    assert refusal(answers[0]).reason == Reason.RUN_NOT_FOUND
    assert (answers[1].is_new, answers[1].run_id) == (True, "")
    assert (answers[2].is_new, answers[2].run_id) == (True, str(waiting))


async def test_a_signal_to_a_run_that_has_ended_is_refused_by_name(
    calls: Calls, waiting: UUID
) -> None:
    await calls.cancel(waiting)
    (answer,) = await calls.signal(calls.signal_item("go", waiting))
    refused = refusal(answer)
    assert refused.reason == Reason.RUN_CLOSED
    assert refused.metadata == {"status": "cancelled", "run_id": str(waiting)}


def answer_item(calls: Calls, token: str, data: bytes, org: str = "") -> hot.SignalItem:
    """An answer to a callback, under an id of its own."""
    signal = SignalContent(data=data, signal_id=str(uuid4()))
    return hot.SignalItem(org=org or calls.org, callback=token, signal=signal)


async def test_of_two_answers_at_once_one_counts(calls: Calls, rows: asyncpg.Connection) -> None:
    await calls.publish(CALLS)
    run = await calls.start("calls")
    token = json.loads(await output(rows, run) or b"")
    first, second = await calls.signal(
        answer_item(calls, token, b"1"), answer_item(calls, token, b"2")
    )
    assert (first.is_new, first.run_id) == (True, str(run))
    assert refusal(second).reason == Reason.CALLBACK_SPENT
    assert await output(rows, run, step=2) == b"1"


async def test_what_is_no_token_of_the_org_is_refused_in_one_way(
    calls: Calls, rows: asyncpg.Connection
) -> None:
    await calls.publish(CALLS)
    run = await calls.start("calls")
    token = json.loads(await output(rows, run) or b"")
    answers = await calls.signal(
        answer_item(calls, "please", b"1"),
        answer_item(calls, token[:30] + "x" + token[31:], b"1"),
        answer_item(calls, token, b"1", org="rival"),
    )
    refused = [refusal(answer) for answer in answers]
    assert {(one.reason, one.message) for one in refused} == {
        (Reason.CALLBACK_INVALID, "there is no such callback")
    }


async def test_a_run_keeps_one_secret_and_one_that_calls_nobody_has_none(
    calls: Calls, rows: asyncpg.Connection, waiting: UUID
) -> None:
    await calls.publish(CALLS)
    first, second = await calls.start("calls"), await calls.start("calls")
    query = "SELECT callback_secret FROM runs WHERE run_id = $1"
    secrets = [await rows.fetchval(query, run) for run in (first, second, waiting)]
    assert [secret and len(secret) for secret in secrets] == [32, 32, None]
    assert secrets[0] != secrets[1]


async def test_a_start_under_the_key_of_a_run_is_a_signal_to_it(
    calls: Calls, rows: asyncpg.Connection
) -> None:
    await calls.publish(TWICE)
    signal = SignalContent(name="go", data=b"1", signal_id="s")
    item = calls.item("twice", start_key="once", signal=signal)
    (first,) = await calls.start_all([item])
    run = UUID(first.run_id)
    assert await output(rows, run) == b"1"
    (same,) = await calls.start_all([item])
    assert await output(rows, run, step=2) is None

    item.signal.CopyFrom(SignalContent(name="go", data=b"2", signal_id="t"))
    (again,) = await calls.start_all([item])
    assert [(one.run_id, one.created) for one in (same, again)] == [(str(run), False)] * 2
    assert await output(rows, run, step=2) == b"2"


@pytest.mark.parametrize(
    ("point", "side"),
    [
        ("store.commit_signals", "before"),
        ("store.commit_signals", "after"),
        ("store.commit_events", "before"),
        ("store.commit_events", "after"),
    ],
)
async def test_an_emission_that_broke_anywhere_stays_and_arrives_once(
    calls: Calls, rows: asyncpg.Connection, waiting: UUID, point: str, side: str
) -> None:
    await calls.publish(EMITS)
    run = await calls.start("emits", input=b'{"key": "k", "data": 7}')
    assert (
        await rows.fetchval("SELECT status::text FROM runs WHERE run_id = $1", run) == "completed"
    )

    with arm(point, side, Raise()), contextlib.suppress(grpc.aio.AioRpcError):
        await fire(calls, rows)
    while await fire(calls, rows):
        pass

    assert await output(rows, waiting) == b"7"
    assert await rows.fetchval("SELECT count(*) FROM signals") == 1
    assert await rows.fetchval("SELECT count(*) FROM timers") == 0


async def test_p6_a_signal_is_kept_though_its_run_could_not_be_told(
    calls: Calls, rows: asyncpg.Connection, waiting: UUID
) -> None:
    with arm("store.commit_events", "before", Raise()):
        (answer,) = await calls.signal(calls.signal_item("go", "k", b"9"))
    assert (answer.is_new, answer.run_id) == (True, str(waiting))
    assert await output(rows, waiting) is None

    items = [hot.UndeliveredSignals(org=calls.org, run_id=str(waiting), name="go")]
    told = await calls.hot.DeliverSignals(hot.DeliverSignalsRequest(items=items * 2), timeout=10)
    assert told.results[0] == hot.ITEM_STATUS_APPLIED
    assert await output(rows, waiting) == b"9"
