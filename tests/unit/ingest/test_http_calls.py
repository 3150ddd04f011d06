"""HTTP/JSON: the calls of gRPC by their routes, payloads byte for byte, errors by field."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from perdure_contracts.v1 import run_pb2, run_service_pb2, workflow_pb2, workflow_service_pb2
from perdure_ingest.http.server import HttpServer, HttpSettings
from perdure_runtime.errors import (
    AlreadyExists,
    NotFound,
    Reason,
    ResourceExhausted,
    Unauthenticated,
)

BIG = b'{"z": 12345678901234567890123, "a" :1e2,\t"u":"\\ud83d\\ude00\\u0000\xc3\xa9", "z":1.0}'
"""Its order, spacing, number, escapes and doubled member must stay."""

JSON = {"Content-Type": "application/json"}

Problems = Callable[[httpx.Response], dict[str, str]]
Reasons = Callable[[httpx.Response], str]


async def post(web: httpx.AsyncClient, path: str, body: bytes, **headers: str) -> httpx.Response:
    return await web.post(path, content=body, headers=JSON | headers)


async def test_r12_an_input_is_handed_on_byte_for_byte(
    web: httpx.AsyncClient, handlers: Any
) -> None:
    body = b'{"workflow": "w", "input": ' + BIG + b', "tags": {"a": "b"}, "startAfter": "1.5s"}'
    answer = await post(web, "/v1/runs", body)
    assert answer.status_code == 200, answer.text
    (request,) = handlers.requests
    assert request.input == BIG
    assert dict(request.tags) == {"a": "b"}
    assert request.start_after.ToMilliseconds() == 1500
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json() == {"run_id": "", "workflow_version": 0, "created": False}


async def test_r12_f103_a_run_is_shown_with_its_payloads_byte_for_byte(
    web: httpx.AsyncClient, handlers: Any
) -> None:
    async def answer_run(request: Any) -> run_service_pb2.GetRunResponse:
        step = run_pb2.Step(step=1, input=BIG, output=b"null")
        run = run_pb2.Run(run_id="r", input=BIG, output=b" [18446744073709551616 ] ", steps=[step])
        run.tags["k"] = "\N{SNOWMAN}"
        run.revision = 2**60
        return run_service_pb2.GetRunResponse(run=run)

    handlers.answer = answer_run
    answer = await web.get("/v1/runs/r")
    assert answer.status_code == 200, answer.text
    assert answer.content.count(b'"input":' + BIG) == 2
    assert b'"output": [18446744073709551616 ] ,' in answer.content
    run = answer.json()["run"]
    assert run["tags"] == {"k": "\N{SNOWMAN}"}
    assert run["steps"][0]["output"] is None
    assert run["revision"] == str(2**60)
    assert "item" not in run["steps"][0]


async def test_a_list_is_asked_for_by_the_query(web: httpx.AsyncClient, handlers: Any) -> None:
    query = {
        "tags[who]": "a b",
        "tags[x]": "",
        "status": "RUN_STATUS_COMPLETED",
        "page_size": "2",
        "createdFrom": "2030-01-01T00:00:00Z",
    }
    assert (await web.get("/v1/runs", params=query)).status_code == 200
    (request,) = handlers.requests
    assert dict(request.tags) == {"who": "a b", "x": ""}
    assert request.status == run_pb2.RUN_STATUS_COMPLETED
    assert request.page_size == 2
    assert request.created_from.ToJsonString() == "2030-01-01T00:00:00Z"


async def test_a_document_is_the_body_itself_and_is_shown_as_text(
    web: httpx.AsyncClient, handlers: Any
) -> None:
    document = b"name: w\nnodes: {}  # as it is\n"
    yaml = {"Content-Type": "application/yaml"}
    assert (await web.post("/v1/workflows", content=document, headers=yaml)).status_code == 200
    assert handlers.requests[0].document == document

    async def stored(request: Any) -> workflow_service_pb2.GetWorkflowResponse:
        workflow = workflow_pb2.Workflow(document=document, digest=b"\xff\xfe")
        return workflow_service_pb2.GetWorkflowResponse(workflow=workflow)

    handlers.answer = stored
    shown = (await web.get("/v1/workflows/w/versions/3")).json()["workflow"]
    assert handlers.requests[1].version == 3
    assert shown["document"] == document.decode()
    assert shown["digest"] == "//4="


async def test_everything_wrong_is_said_at_once_by_field(
    web: httpx.AsyncClient, problems: Problems, reason: Reasons
) -> None:
    body = b"""{"workflow": "a\\u0000b", "version": "x", "nope": {"deep": [1]}, "priority": 1e99,
               "signal": {"name": 7, "more": null}, "workflow": "w", "start_at": "today",
               "tags": {"a": "1", "a": "2"}}"""
    answer = await post(web, "/v1/runs", body)
    assert answer.status_code == 400
    assert reason(answer) == "FIELD_INVALID"
    found = problems(answer)
    assert found["workflow"] == "is given twice"
    assert found["nope"] == "is no field of this message"
    assert found["signal.more"] == "is no field of this message"
    assert found["tags"] == "has the member `a` twice"
    assert {"version", "priority", "signal.name", "start_at"} < set(found)


@pytest.mark.parametrize(
    ("body", "field", "problem"),
    [
        (b"[]", "body", "must be an object"),
        (b"{", "body", "is no JSON at character 1"),
        (b'{"workflow":"w"} x', "body", "goes on after its end"),
        (b'{"workflow":"w",}', "body", "is no JSON"),
        (b'{"workflow" "w"}', "body", "`:` is missing"),
        (b'{"workflow":"\xff"}', "workflow", "is not UTF-8"),
        (b'{"workflow":"\\ud800"}', "workflow", "holds half of a surrogate pair"),
        (b'{"workflow":"\\u0000"}', "workflow", "holds a NUL character"),
        (b'{"workflow":"w","tags":{"\\u0000":"x"}}', "tags", "holds a NUL character"),
        (b'{"workflow":"w","input":NaN}', "input", "holds NaN"),
        (b'{"workflow":"w","input":{"a"}}', "input", "is no JSON"),
        (b'{"workflow":"w","signal":[]}', "signal", "must be an object"),
        (b'{"workflow":"w","version":true}', "version", "is not acceptable"),
        (b'{"workflow":"w","version":' + b"9" * 5000 + b"}", "version", "parse integer"),
        (b'{"workflow":"w","input":' + b"[" * 5000, "body", "nested deeper"),
    ],
)
async def test_f100_what_cannot_be_read_is_refused_by_field(
    web: httpx.AsyncClient,
    handlers: Any,
    problems: Problems,
    body: bytes,
    field: str,
    problem: str,
) -> None:
    answer = await post(web, "/v1/runs", body)
    assert answer.status_code == 400
    assert problem in problems(answer)[field]
    assert handlers.requests == []


async def test_one_of_several_fields_is_asked_for(
    web: httpx.AsyncClient, problems: Problems
) -> None:
    body = b'{"key": "k", "callback": "c", "signal": {"name": "s"}}'
    answer = await post(web, "/v1/signals", body)
    assert problems(answer) == {"callback": "is given beside another of run_id, key, callback"}


async def test_the_path_names_its_fields(
    web: httpx.AsyncClient, handlers: Any, problems: Problems
) -> None:
    run_id = str(uuid.uuid4())
    path = f"/v1/runs/{run_id}/cancel"
    assert (await web.post(path)).status_code == 200
    assert (await post(web, path, b'{"reason": "r"}')).status_code == 200
    same = await post(web, path, json.dumps({"run_id": run_id}).encode())
    assert same.status_code == 200
    other = await post(web, path, json.dumps({"run_id": str(uuid.uuid4())}).encode())
    assert problems(other) == {"run_id": "is another in the body than in the path"}
    assert [item.reason for item in handlers.requests] == ["", "r", ""]
    bad = await web.get("/v1/runs/%ff%00")
    assert "run_id" in problems(bad)


@pytest.mark.parametrize(
    ("query", "field", "problem"),
    [
        ("page_size=1&page_size=2", "page_size", "is given twice"),
        ("page_size=many", "page_size", "invalid literal"),
        ("pages=1", "pages", "is no parameter"),
        ("tags=x", "tags", "name[key]=value"),
        ("tags[a]=1&tags[a]=2", "tags[a]", "is given twice"),
        ("workflow[a]=1", "workflow[a]", "is no map"),
        ("workflow=%ff", "workflow", "is not UTF-8"),
        ("workflow=%00", "workflow", "NUL"),
        ("status=RUN_STATUS_LOST", "status", "Invalid enum value"),
        ("created_from=yesterday", "created_from", "timestamp"),
        ("&".join(["a=1"] * 200), "query", "more than 100"),
    ],
)
async def test_a_query_is_refused_by_field(
    web: httpx.AsyncClient, problems: Problems, query: str, field: str, problem: str
) -> None:
    answer = await web.get(f"/v1/runs?{query}")
    assert answer.status_code == 400
    assert problem in problems(answer)[field]


async def test_a_call_with_a_body_takes_no_parameters(
    web: httpx.AsyncClient, problems: Problems
) -> None:
    answer = await post(web, "/v1/runs?workflow=w", b"{}")
    assert problems(answer)["workflow"] == "is given twice"


@pytest.mark.parametrize(
    ("error", "status", "header"),
    [
        (NotFound("no", reason=Reason.RUN_NOT_FOUND), 404, {}),
        (AlreadyExists("no", reason=Reason.RUN_ALREADY_STARTED, metadata={"a": "b"}), 409, {}),
        (Unauthenticated("no", reason=Reason.KEY_MISSING), 401, {"WWW-Authenticate": "Bearer"}),
        (
            ResourceExhausted("no", reason=Reason.RATE_LIMITED, retry_after=1.2),
            429,
            {"Retry-After": "2"},
        ),
        (ZeroDivisionError("secret"), 500, {}),
    ],
)
async def test_errors_are_those_of_grpc(
    web: httpx.AsyncClient,
    handlers: Any,
    error: Exception,
    status: int,
    header: dict[str, str],
) -> None:
    async def fail(request: Any) -> run_service_pb2.GetRunResponse:
        raise error

    handlers.answer = fail
    answer = await web.get("/v1/runs/r")
    assert answer.status_code == status
    for name, value in header.items():
        assert answer.headers[name] == value
    info = answer.json()["details"][0]
    assert info["reason"] == getattr(error, "reason", "INTERNAL")
    assert info.get("metadata", {}) == dict(getattr(error, "metadata", {}))
    assert "secret" not in answer.text


async def test_a_draining_door_refuses_and_closes(
    web: httpx.AsyncClient, door: HttpServer, reason: Reasons
) -> None:
    await door.drain()
    answer = await web.get("/v1/runs")
    assert answer.status_code == 503
    assert reason(answer) == "DRAINING"
    assert answer.headers["Retry-After"] == "1"
    assert answer.headers["Connection"] == "close"


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/", 404, None),
        ("GET", "/v1/things", 404, None),
        ("DELETE", "/v1/runs", 405, "GET, POST"),
        ("OPTIONS", "/v1/workflows", 405, "GET, POST"),
        ("POST", "/openapi.json", 404, None),
    ],
)
async def test_what_is_no_call_is_said(
    web: httpx.AsyncClient,
    reason: Reasons,
    method: str,
    path: str,
    status: int,
    allow: str | None,
) -> None:
    answer = await web.request(method, path)
    assert answer.status_code == status
    assert reason(answer) == "METHOD_UNKNOWN"
    assert answer.headers.get("Allow") == allow


async def test_bodies_of_other_types_are_not_read(
    web: httpx.AsyncClient, handlers: Any, problems: Problems
) -> None:
    form = await web.post("/v1/runs", data={"workflow": "w"})
    assert form.status_code == 415
    plain = await web.post("/v1/runs", content=b"{}")
    assert plain.status_code == 415
    packed = await post(web, "/v1/runs", b"{}", **{"Content-Encoding": "gzip"})
    assert packed.status_code == 415
    latin = await web.post(
        "/v1/runs", content=b"{}", headers={"Content-Type": "application/json; charset=latin-1"}
    )
    assert latin.status_code == 415
    on_get = await web.request("GET", "/v1/runs", content=b"{}", headers=JSON)
    assert on_get.status_code == 415
    assert "body" in problems(on_get)
    assert handlers.requests == []


@pytest.mark.parametrize("text", ["0", "-1", "soon", "nan", "inf", "100000"])
async def test_a_deadline_that_is_none_is_refused(
    web: httpx.AsyncClient, problems: Problems, text: str
) -> None:
    answer = await web.get("/v1/runs", headers={"Perdure-Timeout": text})
    assert answer.status_code == 400
    assert set(problems(answer)) == {"Perdure-Timeout"}


async def test_a_deadline_is_kept_and_passed_on(
    web: httpx.AsyncClient, handlers: Any, reason: Reasons
) -> None:
    async def never(request: Any) -> run_service_pb2.GetRunResponse:
        await asyncio.Event().wait()
        raise AssertionError

    handlers.answer = never
    answer = await web.get("/v1/runs/r", headers={"Perdure-Timeout": "0.05"})
    assert answer.status_code == 504
    assert reason(answer) == "DEADLINE_EXCEEDED"
    (left,) = handlers.remaining
    assert 0 < left <= 0.05


async def test_the_gate_is_asked_before_the_body_is_read(handlers: Any) -> None:
    asked = list[tuple[str, str]]()

    @asynccontextmanager
    async def guard(method: str, context: Any) -> AsyncIterator[None]:
        asked.append((method, dict(context.invocation_metadata())["authorization"]))
        raise Unauthenticated("who?", reason=Reason.KEY_INVALID)
        yield  # type: ignore[unreachable]

    server = HttpServer({"all": handlers.register}, HttpSettings("127.0.0.1", 0), guard=guard)
    await server.start()
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}") as web:
        headers = JSON | {"Authorization": "Bearer x"}
        answer = await web.post("/v1/runs", content=b"{", headers=headers)
    await server.stop()
    assert answer.status_code == 401
    assert asked == [("/perdure.v1.RunService/StartRun", "Bearer x")]
    assert handlers.requests == []
