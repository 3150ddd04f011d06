"""Job types: versions that never change, made of what a type says, and refused by field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from perdure import Client, JobRetry, PerdureApiError
from perdure.times import duration


async def refusal(call: Any) -> PerdureApiError:
    with pytest.raises(PerdureApiError) as caught:
        await call
    return caught.value


async def test_a_type_is_read_back_as_it_was_said(client: Client) -> None:
    schema = b'{"type":  "object", "properties": {"n": {"maximum": 18446744073709551616}}}'
    rules = [
        JobRetry(on=["TIMEOUT"], max=0),
        JobRetry(base=duration(0.5), factor=1.5, cap=duration(60)),
    ]
    made = await client.jobs.put_type(
        "report",
        handler="report.make",
        payload_schema=schema,
        lane="slow",
        connection="${input.account}",
        retry=rules,
        timeout=2.5,
        subject="${input.account}",
        purpose="billing",
    )
    assert (made.created, made.job_type.version) == (True, 1)
    read = await client.jobs.get_type("report")
    assert read == made.job_type
    spec = read.spec
    assert (spec.handler, spec.payload_schema, spec.lane) == ("report.make", schema, "slow")
    assert list(spec.retry) == rules
    assert spec.timeout == duration(2.5)
    assert (spec.subject, spec.purpose) == ("${input.account}", "billing")


async def test_r11_a_change_is_a_new_version_and_the_same_content_none(client: Client) -> None:
    call = b'{"method": "POST",  "url": "https://mail.example/send", "effect": "provider"}'
    first = await client.jobs.put_type("call", http=call)
    again = await client.jobs.put_type("call", http=json.loads(call))
    changed = await client.jobs.put_type("call", http=call, timeout=5)
    assert [one.job_type.version for one in (first, again, changed)] == [1, 1, 2]
    assert [one.created for one in (first, again, changed)] == [True, False, True]
    assert (await client.jobs.get_type("call", 1)).spec.http == call
    assert not (await client.jobs.get_type("call", 1)).spec.HasField("timeout")
    assert [one.name async for one in client.jobs.list_types()] == ["call", "mail", "note"]
    assert (await client.jobs.enqueue("call")).type_version == 2


async def test_everything_wrong_with_a_type_is_said_at_once_by_its_own_fields(
    client: Client,
) -> None:
    error = await refusal(
        client.jobs.put_type(
            "bad",
            http={"url": 5, "metod": "GET"},
            payload_schema={"type": "text"},
            lane="nowhere",
            retry=[JobRetry(max=-1)],
            timeout=0,
        )
    )
    assert error.reason == "FIELD_INVALID"
    assert {one.field for one in error.fields} == {
        "spec.http.url",
        "spec.http.metod",
        "spec.payload_schema",
        "spec.lane",
        "spec.retry[0].max",
        "spec.timeout",
    }
    error = await refusal(client.jobs.put_type("Bad", retry=[JobRetry(factor=float("nan"))]))
    assert {one.field for one in error.fields} == {"name", "spec.handler", "spec.retry[0].factor"}
    error = await refusal(client.jobs.put_type("bad", handler="h", payload_schema=b"{"))
    assert (error.reason, error.fields[0].field) == ("PAYLOAD_INVALID", "spec.payload_schema")


async def test_a_type_that_there_is_not_is_named(client: Client) -> None:
    for name, version in (("fax", 0), ("note", 9)):
        error = await refusal(client.jobs.get_type(name, version))
        assert (error.reason, error.metadata["type"]) == ("JOB_TYPE_NOT_FOUND", name)


async def test_a_workflow_does_not_take_a_job_types_name(client: Client) -> None:
    document = "name: job:mail\nnodes: {a: {transform: 1}}"
    error = await refusal(client.publish_workflow(document))
    assert (error.reason, error.fields[0].field) == ("DEFINITION_INVALID", "name")
    (problem,) = (await client.validate_workflow(document)).problems
    assert problem.path == "name"
    assert (await client.get_workflow("job:mail")).version == 1  # what a type is, is no secret
