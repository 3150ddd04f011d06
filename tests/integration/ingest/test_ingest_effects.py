"""The doors for effects: what is listed and shown, and what a decision asks of the coordinator."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta
from typing import Any

import pytest
from perdure import Client, PerdureApiError
from perdure_contracts.internal.v1.effects_pb2 import DecideEffectResult
from perdure_contracts.v1 import effect_service_pb2 as pb
from perdure_runtime.errors import FailedPrecondition, Reason
from perdure_runtime.rpc.errors import to_status

HOUR = timedelta(hours=1)


async def listed(client: Client, **wanted: Any) -> list[str]:
    return [entry.effect.key async for entry in client.effects.list(**wanted)]


async def a_run(rows: Any, *, org: str = "default") -> uuid.UUID:
    run_id: uuid.UUID = await rows.run(status="failed", error=ERROR, org=org)
    await rows.step(run_id, status="completed", org=org, node="fax")
    return run_id


ERROR = json.dumps({"class": "permanent", "code": "BROKEN", "message": "it broke"}).encode()


async def refusal(call: Any) -> PerdureApiError:
    with pytest.raises(PerdureApiError) as refused:
        await call
    return refused.value


async def test_what_is_not_settled_is_listed_oldest_first_in_pages(
    client: Client, rows: Any
) -> None:
    run_id, now = await a_run(rows), await rows.now()
    for number, status in enumerate(("needs_review", "outcome_unknown", "in_flight")):
        await rows.effect(run_id, f"k{number}", status=status, begun_at=now - number * HOUR)
    for status in ("settled", "refused"):
        await rows.effect(run_id, status, status=status)
    assert await listed(client, page_size=1) == ["k2", "k1", "k0"]
    assert await listed(client, page_size=2) == ["k2", "k1", "k0"]


async def test_effects_are_filtered_by_run_status_kind_and_age_and_seen_by_their_org_alone(
    client: Client, rows: Any
) -> None:
    run_id, other, now = await a_run(rows), await a_run(rows), await rows.now()
    foreign = await a_run(rows, org="foreign")
    await rows.effect(run_id, "young", status="needs_review", kind="none")
    await rows.effect(other, "old", status="outcome_unknown", begun_at=now - 2 * HOUR)
    await rows.effect(foreign, "foreign", status="needs_review", org="foreign")
    assert await listed(client) == ["old", "young"]
    assert await listed(client, run_id=str(other)) == ["old"]
    assert await listed(client, status="needs_review") == ["young"]
    assert await listed(client, kind="none") == ["young"]
    assert await listed(client, older_than=HOUR) == ["old"]
    refused = await refusal(client.effects.get(f"{foreign}/foreign"))
    assert refused.reason == "RUN_NOT_FOUND"


async def test_a_filter_that_means_nothing_is_refused(client: Client) -> None:
    for wanted in ({"status": "settled"}, {"kind": "x"}, {"run_id": "x"}):
        assert (await refusal(listed(client, **wanted))).reason == "FIELD_INVALID"


async def test_one_effect_is_shown_with_its_key_its_note_and_what_people_decided(
    client: Client, rows: Any
) -> None:
    run_id, now = await a_run(rows), await rows.now()
    key = f"{run_id}/fax/request"
    await rows.effect(
        run_id,
        key,
        status="settled",
        calls=2,
        begun_at=now,
        keep=3600.0,
        note="cut",
        result=b'{"n": 18446744073709551617}',
    )
    await rows.connection.execute(
        "INSERT INTO effect_decisions (run_id, key, decided_at, org, decision, actor, reason) "
        "VALUES ($1, $2, clock_timestamp(), 'default', 'settled', 'ada', 'they have it')",
        run_id,
        key,
    )
    answer = await client.effects.get(key)
    entry = answer.effect
    assert (entry.effect.calls, entry.note, entry.node) == (2, "cut", "fax")
    assert entry.key_expires_at.ToDatetime(now.tzinfo) == now + HOUR
    assert answer.result == b'{"n": 18446744073709551617}'
    (decision,) = answer.decisions
    assert (decision.decision, decision.actor, decision.reason) == (
        "settled",
        "ada",
        "they have it",
    )


async def test_an_effect_that_is_not_there_is_named(client: Client, rows: Any) -> None:
    run_id = await a_run(rows)
    assert (await refusal(client.effects.get(f"{run_id}/x"))).reason == "EFFECT_NOT_FOUND"
    assert (await refusal(client.effects.get(f"{uuid.uuid4()}/x"))).reason == "RUN_NOT_FOUND"
    assert (await refusal(client.effects.get("x"))).reason == "FIELD_INVALID"


async def test_each_decision_reaches_the_coordinator_as_it_was_made(
    client: Client, coordinator: Any
) -> None:
    key = f"{uuid.uuid4()}/fax/request"
    assert await client.effects.settle(key, b'{"n": 1.10}', reason="they have it", asked_by="ada")
    await client.effects.settle(key)
    await client.effects.repeat(key)
    await client.effects.repeat(key, although_key_expired=True)
    await client.effects.fail(key)
    await client.effects.fail(key, code="GONE", message="the line is dead")
    first, empty, again, late, failed, named = coordinator.items
    assert (first.org, first.run_id, first.key) == ("default", key.partition("/")[0], key)
    assert (first.settled, first.reason) == (b'{"n": 1.10}', "they have it")
    assert first.actor == f"ada, told by {empty.actor}"
    assert empty.settled == b"null"
    assert empty.actor.startswith("key k-")
    assert again.WhichOneof("decision") == "not_performed"
    assert not again.not_performed.although_key_expired
    assert late.not_performed.although_key_expired
    assert (failed.failed.code, getattr(failed.failed, "class")) == ("EFFECT_GIVEN_UP", "permanent")
    assert (named.failed.code, named.failed.message) == ("GONE", "the line is dead")


async def test_a_decision_that_is_refused_says_why(client: Client, coordinator: Any) -> None:
    async def refuse(item: Any) -> DecideEffectResult:
        error = FailedPrecondition("it is decided", reason=Reason.EFFECT_DECIDED)
        return DecideEffectResult(error=to_status(error))

    coordinator.decide = refuse
    refused = await refusal(client.effects.settle(f"{uuid.uuid4()}/k"))
    assert refused.reason == "EFFECT_DECIDED"


async def test_a_decision_is_checked_before_it_is_sent(client: Client, coordinator: Any) -> None:
    key = f"{uuid.uuid4()}/k"
    for call in (
        client.effects.settle(key, b"{"),
        client.effects.settle("k"),
        client.effects.fail(key, code="x" * 121),
        client.effects.repeat(key, reason="x" * 1001),
    ):
        assert (await refusal(call)).reason in ("FIELD_INVALID", "PAYLOAD_INVALID")
    bare = pb.DecideEffectRequest(run_id=str(uuid.uuid4()), key="k")
    assert (await refusal(client.effects._decide(bare))).reason == "FIELD_INVALID"
    assert coordinator.batches == []
