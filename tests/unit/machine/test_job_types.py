"""A job type as the document of a workflow, and back."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from perdure_machine.definition import parse
from perdure_machine.job_types import (
    JobRetry,
    JobType,
    field_of,
    from_document,
    is_job,
    to_document,
    type_of,
    workflow_of,
)

LANES = frozenset({"io"})

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
lengths = st.floats(0, 1e6, allow_nan=False).map(lambda value: round(value, 6))
rules = st.builds(
    JobRetry,
    on=st.lists(texts.filter(bool), max_size=3).map(tuple),
    max=st.none() | st.integers(0, 10_000),
    base=st.none() | lengths,
    factor=st.none() | lengths,
    cap=st.none() | lengths,
)
types = st.builds(
    JobType,
    name=st.from_regex(r"[a-z][a-z0-9_.-]{0,20}", fullmatch=True),
    handler=texts,
    http=st.sampled_from([b"", b'{"url":  "x", "n": 18446744073709551616, "s": "\\ud800"}']),
    lane=texts,
    connection=texts,
    payload_schema=st.sampled_from([b"", b"true", b'{ "type": "object", "x": 1.10 }']),
    retry=st.lists(rules, max_size=3).map(tuple),
    timeout=st.none() | lengths,
    subject=texts,
    purpose=texts,
).map(
    lambda one: (
        JobType(**{**{f: getattr(one, f) for f in one.__slots__}, "handler": ""})
        if one.http
        else one
    )
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(types)
def test_what_a_type_says_comes_back_and_its_own_json_byte_for_byte_r12(said: JobType) -> None:
    assert from_document(to_document(said)) == said


def test_a_type_is_a_workflow_of_one_node_whose_output_is_the_jobs() -> None:
    said = JobType(name="mail", handler="mail.send", payload_schema=b'{"type": "object"}')
    definition = parse(to_document(said), known_lanes=LANES)
    assert definition.name == workflow_of("mail") == "job:mail"
    assert list(definition.nodes) == ["job"]
    assert definition.input_schema == b'{"type": "object"}'


def test_only_the_prefix_makes_runs_jobs() -> None:
    assert is_job("job:mail")
    assert not is_job("job-mail")
    assert type_of("job:mail") == "mail"


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("nodes.job.task.handler", "handler"),
        ("nodes.job.task.one_of", "handler.one_of"),
        ("nodes.job.http.url", "http.url"),
        ("nodes.job.retry[1].max", "retry[1].max"),
        ("input.properties.a", "payload_schema.properties.a"),
        ("input", "payload_schema"),
        ("inputs", "inputs"),
        ("subject", "subject"),
        ("name", "name"),
    ],
)
def test_a_place_of_the_document_is_told_as_the_types_own_field(path: str, field: str) -> None:
    assert field_of(path) == field
