"""SignalRun: checked here, sent once however often, done by the coordinator."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from perdure import Client, PerdureApiError, StartSignal
from perdure_contracts.internal.v1.coordinator_service_pb2 import SignalResult
from perdure_contracts.v1.run_pb2 import Signal
from perdure_contracts.v1.run_service_pb2 import SignalRunRequest
from perdure_runtime import fail_points
from perdure_runtime.errors import FailedPrecondition, Reason
from perdure_runtime.rpc.errors import to_status
from perdure_testkit.fail_once import FailOnce

RUN = str(uuid.uuid4())


async def test_a_signal_reaches_the_coordinator_byte_for_byte_with_the_org_of_the_door_r12(
    client: Client, coordinator: Any
) -> None:
    data = b'{"big": 18446744073709551616,  "u": "\\u0000"}'
    sent = await client.signal_run(RUN, "go", data, signal_id="one")
    await client.signal_key("order-7", "go")
    to_run, by_key = coordinator.items
    assert (to_run.org, to_run.run_id, to_run.signal.name) == ("default", RUN, "go")
    assert (to_run.signal.data, to_run.signal.signal_id) == (data, "one")
    assert (by_key.org, by_key.key, by_key.signal.data) == ("default", "order-7", b"null")
    assert (sent.is_new, sent.run_id) == (True, RUN)


@pytest.mark.parametrize("signal_id", ["mine", ""])
async def test_protocol_p6_repeats_of_a_signal_carry_one_id(
    client: Client, coordinator: Any, signal_id: str
) -> None:
    """The answer is lost after the coordinator did its work; the repeat carries the same id."""
    request = SignalRunRequest(key="k", signal=Signal(name="go", signal_id=signal_id))
    with fail_points.arm("ingest.signal", "after", FailOnce()):
        await client._transport.call(client._runs.SignalRun, request)
    first, second = coordinator.items
    assert first.signal.signal_id == second.signal.signal_id
    assert first.signal.signal_id.startswith(signal_id or "call:")


async def test_the_clients_own_ids_are_all_different(client: Client, coordinator: Any) -> None:
    for _ in range(3):
        await client.signal_run(RUN, "go")
    assert len({item.signal.signal_id for item in coordinator.items}) == 3


async def test_a_start_carries_its_signal(client: Client, coordinator: Any) -> None:
    await client.start_run("order", signal=StartSignal("go", {"n": 1}, "one"))
    await client.start_run("order")
    with_signal, without = coordinator.items
    assert (with_signal.signal.name, with_signal.signal.data) == ("go", b'{"n": 1}')
    assert with_signal.signal.signal_id == "one"
    assert not without.HasField("signal")


async def test_everything_wrong_with_a_signal_is_said_at_once_and_nothing_is_sent(
    client: Client, coordinator: Any
) -> None:
    request = SignalRunRequest(signal=Signal(data=b"{", signal_id="emit:mine"))
    with pytest.raises(PerdureApiError) as caught:
        await client._transport.call(client._runs.SignalRun, request)
    assert {each.field for each in caught.value.fields} == {
        "target",
        "signal.name",
        "signal.data",
        "signal.signal_id",
    }
    assert coordinator.items == []


@pytest.mark.parametrize("signal_id", ["call:mine", "emit:mine", "x" * 1000])
async def test_ids_that_callers_may_not_use_are_refused(
    client: Client, coordinator: Any, signal_id: str
) -> None:
    with pytest.raises(PerdureApiError) as caught:
        await client.signal_key("k", "go", signal_id=signal_id)
    assert [each.field for each in caught.value.fields] == ["signal.signal_id"]
    assert coordinator.items == []


async def test_what_is_no_run_id_is_refused_by_field(client: Client, coordinator: Any) -> None:
    with pytest.raises(PerdureApiError) as caught:
        await client.signal_run("nonsense", "go")
    assert [each.field for each in caught.value.fields] == ["run_id"]
    assert coordinator.items == []


async def test_an_answer_to_a_callback_has_a_token_and_no_name(
    client: Client, coordinator: Any
) -> None:
    await client.answer_callback("cb1_token", {"n": 1}, signal_id="one")
    (item,) = coordinator.items
    assert (item.org, item.callback, item.signal.name) == ("default", "cb1_token", "")
    assert (item.signal.data, item.signal.signal_id) == (b'{"n": 1}', "one")
    request = SignalRunRequest(callback="x" * 4001, signal=Signal(name="go"))
    with pytest.raises(PerdureApiError) as caught:
        await client._transport.call(client._runs.SignalRun, request)
    assert {each.field for each in caught.value.fields} == {"callback", "signal.name"}
    assert coordinator.items == [item]


async def test_the_coordinators_refusal_is_told(client: Client, coordinator: Any) -> None:
    async def closed(item: Any) -> SignalResult:
        return SignalResult(error=to_status(FailedPrecondition("over", reason=Reason.RUN_CLOSED)))

    coordinator.signal = closed
    with pytest.raises(PerdureApiError) as caught:
        await client.signal_run(RUN, "go")
    assert caught.value.reason == "RUN_CLOSED"
