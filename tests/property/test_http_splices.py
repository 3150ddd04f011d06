"""For any JSON text: HTTP/JSON hands a payload on as exactly the bytes that came (R12)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from perdure_contracts.v1.run_pb2 import Run, Signal, Step
from perdure_contracts.v1.run_service_pb2 import GetRunResponse, StartRunRequest
from perdure_ingest.http.reading import MAX_VIOLATIONS, Violations, read_json
from perdure_ingest.http.writing import to_json
from perdure_runtime.errors import InvalidArgument

SPACES = st.sampled_from(["", " ", "\n\t", "\r\n"])
ATOMS = st.sampled_from(
    ["null", "true", "-0", "1e400", "1.10", "9" * 5000, r'"\u0000\ud800"', r'"\"}],"', '"é\u2028"']
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5).map(json.dumps)


def _wrapped(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    spaced = st.builds(lambda before, value, after: before + value + after, SPACES, inner, SPACES)
    members = st.builds(lambda key, value: f"{key} :{value}", TEXTS, spaced)
    return st.one_of(
        st.lists(spaced, max_size=3).map(lambda items: f"[{','.join(items)}]"),
        st.lists(members, max_size=3).map(lambda items: f"{{{','.join(items)}}}"),
    )


PAYLOADS = st.recursive(ATOMS | TEXTS, _wrapped, max_leaves=8).map(str.encode)
PLAIN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)


def read(data: bytes, message: Any) -> Any:
    violations = Violations()
    read_json(data, message, violations)
    violations.refuse()
    return message


@given(payload=PAYLOADS, before=SPACES, after=SPACES)
@settings(max_examples=150, deadline=None)
def test_r12_a_payload_is_cut_out_of_a_request_as_it_stands(
    payload: bytes, before: str, after: str
) -> None:
    body = b'{"input":%s%s%s,"workflow":"w"}' % (before.encode(), payload, after.encode())
    request = read(body, StartRunRequest())
    assert request.input == payload
    assert request.workflow == "w"


@given(payload=PAYLOADS, output=PAYLOADS, text=PLAIN)
@settings(max_examples=150, deadline=None)
def test_r12_a_payload_is_put_into_an_answer_as_it_is(
    payload: bytes, output: bytes, text: str
) -> None:
    run = Run(run_id=text, input=payload, steps=[Step(output=output)], tags={text: text})
    answer = GetRunResponse(run=run)
    written = to_json(answer)
    assert b'"input":' + payload in written
    assert b'"output":' + output in written
    assert read(written, GetRunResponse()) == answer


@given(
    name=PLAIN,
    tags=st.dictionaries(PLAIN, PLAIN, max_size=3),
    priority=st.integers(-(2**31), 2**31 - 1),
    data=PAYLOADS,
)
@settings(max_examples=100, deadline=None)
def test_a_request_that_is_written_is_read_as_the_same(
    name: str, tags: dict[str, str], priority: int, data: bytes
) -> None:
    signal = Signal(name=name, data=data)
    request = StartRunRequest(workflow=name, tags=tags, priority=priority, signal=signal)
    assert read(to_json(request), StartRunRequest()) == request


@given(data=st.binary(max_size=40) | PAYLOADS)
@settings(max_examples=300, deadline=None)
def test_f100_whatever_is_sent_is_read_or_refused_by_field(data: bytes) -> None:
    for body in (data, b'{"workflow":%s}' % data, b'{"signal":{"data":%s}}' % data):
        violations = Violations()
        read_json(body, StartRunRequest(), violations)
        assert all(found.field and found.description for found in violations.found)


@pytest.mark.parametrize("field", ["input", "signal", "tags"])
def test_a_document_that_breaks_off_is_refused_where_it_does(field: str) -> None:
    whole = b'{"%s": {"a": ["b", {"c": "d"}]}}' % field.encode()
    for length in range(1, len(whole)):
        with pytest.raises(InvalidArgument):
            read(whole[:length], StartRunRequest())


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "body",
    [
        b'{"tags":{%s,"k":1,"k":1}}' % b",".join(b'"%d":""' % number for number in range(200_000)),
        b"{%s}" % b",".join(b'"%d":0' % number for number in range(300_000)),
        b"{%s}" % b",".join([b'"workflow":""'] * 250_000),
        b'{"input":%s"%s' % (b"[" * 130, b'\\"' * 1_500_000),
    ],
    ids=["a member twice at the end", "unknown fields", "a field again", "a text without end"],
)
def test_a_long_document_of_faults_costs_no_time(body: bytes) -> None:
    violations = Violations()
    read_json(body, StartRunRequest(), violations)
    assert 0 < len(violations.found) <= MAX_VIOLATIONS


def test_a_list_of_too_many_objects_is_refused() -> None:
    violations = Violations()
    read_json(b'{"run":{"steps":[%s]}}' % b",".join([b"{}"] * 10_001), GetRunResponse(), violations)
    assert violations.found[0].description == "has more than 10000 items"
