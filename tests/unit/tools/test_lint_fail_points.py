"""The fail-point lint finds each way to commit or send past the crash matrix."""

import ast
from pathlib import Path

import pytest

from tools.findings import Source
from tools.lint_fail_points import lint, rpc_names_of

RPCS = frozenset({"ReportResult"})
STREAMS = "libs/streams/perdure_streams/producer.py"
STORE = "libs/store/perdure_store/transaction.py"
WORKER = "services/worker/perdure_worker/loop.py"
CLIENT = "libs/runtime/perdure_runtime/rpc/client.py"


def messages(path: str, code: str, *more: tuple[str, str]) -> list[str]:
    sources = [Source(at, ast.parse(text)) for at, text in ((path, code), *more)]
    return [finding.message for finding in lint(sources, RPCS)]


GUARDED = """
SEND = declare("streams.xadd")

async def publish(redis):
    async with SEND.around():
        await redis.xadd("s", {})
"""


def test_a_send_inside_a_fail_point_is_accepted() -> None:
    assert messages(STREAMS, GUARDED) == []


def test_a_send_without_a_fail_point_is_found() -> None:
    code = "async def publish(redis):\n    await redis.xadd('s', {})\n"
    assert messages(STREAMS, code) == ["stream command without a fail point around it"]


def test_a_point_passed_in_another_function_does_not_count() -> None:
    code = GUARDED + "\nasync def forget(redis):\n    await redis.xdel('s', '1-0')\n"
    assert messages(STREAMS, code) == ["stream command without a fail point around it"]


@pytest.mark.parametrize("command", ["xadd", "xack", "xdel", "xautoclaim"])
def test_a_stream_command_outside_of_streams_is_found(command: str) -> None:
    found = messages(WORKER, f"async def run(redis):\n    await redis.{command}('s')\n")
    assert found == ["stream command outside of libs/streams/"]


@pytest.mark.parametrize(
    "call",
    ["transaction()", "execute('BEGIN')", "execute(' commit')", "execute('BEGIN READ ONLY')"],
)
def test_a_transaction_outside_of_the_store_is_found(call: str) -> None:
    found = messages(WORKER, f"async def run(connection):\n    await connection.{call}\n")
    assert "transaction outside of libs/store/" in found


def test_a_transaction_that_passes_the_point_it_was_given_is_accepted() -> None:
    code = """
async def commit(connection, point):
    async with point.around():
        await connection.execute("COMMIT")
"""
    assert messages(STORE, code) == []


def test_another_statement_is_no_transaction() -> None:
    assert messages(STORE, "connection.execute('SELECT begin FROM t')\n") == []


@pytest.mark.parametrize("call", ["execute(sql('a.b'), 1)", "executemany(sql('a.b'), rows)"])
def test_a_writing_statement_outside_of_the_store_is_found(call: str) -> None:
    assert messages(WORKER, f"connection.{call}\n") == [
        "statement outside of libs/store/, libs/stack/"
    ]


def test_the_execution_of_a_redis_pipeline_is_no_statement() -> None:
    assert messages(WORKER, "pipeline.execute()\n") == []


def test_an_rpc_outside_of_the_client_is_found() -> None:
    found = messages(WORKER, "async def run(stub):\n    await stub.ReportResult(None)\n")
    assert found == [
        "RPC outside of libs/runtime/perdure_runtime/rpc/client.py, libs/sdk/perdure/client"
    ]


def test_a_channel_is_made_by_the_client_alone() -> None:
    code = "def connect(aio):\n    return aio.insecure_channel('a')\n"
    assert messages(CLIENT, code) == []
    assert [text.split()[0] for text in messages(WORKER, code)] == ["channel"]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def f():\n    declare('worker.send')\n", "a fail point is a constant of its module"),
        ("SEND = declare('worker.' + name)\n", "a fail point's name is a dotted literal"),
        ("SEND = declare('worker')\n", "a fail point's name is a dotted literal"),
        ("SEND = declare('relay.send')\n", "'relay.send' does not start with 'worker'"),
        ("SEND = declare('worker.send')\n", "SEND is never used"),
        ("SEND = fail_points.declare('worker.send')\n", "SEND is never used"),
    ],
)
def test_a_declaration_that_the_crash_matrix_cannot_use_is_found(code: str, message: str) -> None:
    assert messages(WORKER, code) == [message]


def test_a_point_used_by_another_module_is_used() -> None:
    user = ("services/worker/perdure_worker/other.py", "run(SEND)\n")
    assert messages(WORKER, "SEND = declare('worker.send')\n", user) == []


def test_two_points_of_one_name_are_found() -> None:
    code = "A = declare('worker.send')\nB = declare('worker.send')\nrun(A, B)\n"
    assert messages(WORKER, code) == [f"'worker.send' is declared at {WORKER}:1"]


def test_rpc_names_come_from_the_protos(tmp_path: Path) -> None:
    proto = tmp_path / "service.proto"
    proto.write_text("service S {\n  rpc ReportResult(A) returns (B);\n  // rpc Not\n}\n")
    assert rpc_names_of([proto]) == {"ReportResult"}
