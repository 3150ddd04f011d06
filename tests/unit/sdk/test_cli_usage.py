"""The command line without a server: usage, addresses, commands of other packages, exit status."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from perdure.address import (
    DEFAULT_ADDRESS,
    DEFAULT_DOOR,
    find_address,
    find_api_key,
    find_door,
)
from perdure.cli import plugins
from perdure.cli.failures import api_failure
from perdure.cli.main import cli
from perdure.errors import FieldProblem, PerdureApiError
from perdure.payload import to_payload
from perdure_stack.ports import free_ports


def perdure(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def test_nobody_answering_says_what_where_and_what_to_do() -> None:
    (port,) = free_ports(1)
    result = perdure("run", "list", "--address", f"127.0.0.1:{port}")
    assert result.exit_code == 3
    what, where, do_this = result.stderr.splitlines()
    assert what == "what:    no Perdure answers"
    assert where == f"where:   127.0.0.1:{port}"
    assert do_this.startswith("do this: start one with `perdure dev`")


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "start", "w", "--tag", "no-equals-sign"),
        ("run", "list", "--status", "nonsense"),
        ("run", "list", "--created-from", "yesterday"),
        ("run", "list", "--limit", "0"),
        ("run", "fly"),
        ("run", "signal", "name-only"),
        ("run", "signal", "a-run", "name", "--key", "k"),
        ("run", "signal", "name", "--callback", "cb1_token"),
        ("run", "signal", "--callback", "cb1_token", "--key", "k"),
        ("run", "signal"),
        ("run", "start", "w", "--signal-data", "1"),
        ("nonsense",),
        ("serve", "nonsense"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: tuple[str, ...]) -> None:
    assert perdure(*arguments).exit_code == 2


def test_a_file_that_cannot_be_read_is_the_users_error(tmp_path: Path) -> None:
    missing = tmp_path / "missing.yaml"
    result = perdure("workflow", "publish", str(missing))
    assert result.exit_code == 1
    assert f"where:   {missing}" in result.stderr


def test_every_command_is_listed_and_has_help() -> None:
    for name in ("workflow", "run", "doctor", "dev", "migrate", "serve"):
        assert name in perdure("--help").stdout
    listed = perdure("--help").stdout.split("Commands:")[1].splitlines()
    assert [line for line in listed if len(line.split()) == 1] == []
    for group, name in (("run", "start"), ("workflow", "publish")):
        assert "--json" in perdure(group, name, "--help").stdout


def test_a_command_whose_package_is_missing_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "entry_points", lambda **_: EntryPoints(()))
    for arguments, package in (
        (("dev",), "perdure-stack"),
        (("migrate", "--help"), "perdure-store"),
        (("serve", "relay"), "perdure-relay"),
    ):
        result = perdure(*arguments)
        assert result.exit_code == 1
        assert f"pip install {package}" in result.stderr


def greet(arguments: tuple[str, ...]) -> int:
    click.echo("got " + " ".join(arguments))
    return 7


def test_a_brought_command_gets_all_arguments_and_gives_the_exit_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry = EntryPoint("dev", f"{__name__}:greet", plugins.COMMANDS)
    monkeypatch.setattr(EntryPoint, "load", lambda self: greet)
    monkeypatch.setattr(plugins, "entry_points", lambda **_: EntryPoints((entry,)))
    result = perdure("dev", "--free-ports", "-x", "--help")
    assert (result.exit_code, result.stdout) == (7, "got --free-ports -x --help\n")


def test_the_address_is_the_first_that_is_said(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert find_address(None, {}, below) == DEFAULT_ADDRESS
    (tmp_path / ".perdure").mkdir()
    (tmp_path / ".perdure" / "stack.json").write_text(json.dumps({"ingest_address": "h:1"}))
    assert find_address(None, {}, below) == "h:1"
    assert find_address(None, {"PERDURE_ADDRESS": "h:2"}, below) == "h:2"
    assert find_address("h:3", {"PERDURE_ADDRESS": "h:2"}, below) == "h:3"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"ingest_address": 7}', "{}"])
def test_a_stack_file_that_says_nothing_is_passed_over(tmp_path: Path, content: str) -> None:
    (tmp_path / ".perdure").mkdir()
    (tmp_path / ".perdure" / "stack.json").write_text(content)
    assert find_address(None, {}, tmp_path) == DEFAULT_ADDRESS


def test_the_door_of_handlers_is_found_as_ingest_is(tmp_path: Path) -> None:
    assert find_door(None, {}, tmp_path) == DEFAULT_DOOR
    (tmp_path / ".perdure").mkdir()
    told = {"ingest_address": "h:1", "worker_address": "h:4"}
    (tmp_path / ".perdure" / "stack.json").write_text(json.dumps(told))
    (tmp_path / ".perdure" / "api_key").write_text("pdr_stack\n")
    assert find_door(None, {}, tmp_path) == "h:4"
    assert find_door(None, {"PERDURE_HANDLERS_ADDRESS": "h:5"}, tmp_path) == "h:5"
    assert find_door("h:6", {"PERDURE_HANDLERS_ADDRESS": "h:5"}, tmp_path) == "h:6"
    assert find_api_key(None, "h:4", {}, tmp_path) == "pdr_stack"
    assert find_api_key(None, "h:5", {}, tmp_path) == ""


def test_the_key_of_a_dev_stack_is_shown_to_that_stack_alone(tmp_path: Path) -> None:
    below = tmp_path / "a"
    below.mkdir()
    assert find_api_key(None, "h:1", {}, below) == ""
    (tmp_path / ".perdure").mkdir()
    (tmp_path / ".perdure" / "stack.json").write_text(json.dumps({"ingest_address": "h:1"}))
    assert find_api_key(None, "h:1", {}, below) == ""
    (tmp_path / ".perdure" / "api_key").write_text("pdr_stack\n")
    assert find_api_key(None, "h:1", {}, below) == "pdr_stack"
    assert find_api_key(None, "h:2", {}, below) == ""
    assert find_api_key(None, "h:1", {"PERDURE_API_KEY": "pdr_env\n"}, below) == "pdr_env"
    assert find_api_key("pdr_given", "h:2", {"PERDURE_API_KEY": "pdr_env"}, below) == "pdr_given"
    assert find_api_key("", "h:1", {"PERDURE_API_KEY": "pdr_env"}, below) == ""


def test_an_api_error_lists_its_fields_and_names_its_run() -> None:
    error = PerdureApiError(
        "wrong",
        code="INVALID_ARGUMENT",
        reason="FIELD_INVALID",
        metadata={"run_id": "r-1"},
        fields=(FieldProblem("a", "is wrong"), FieldProblem("b", "too")),
    )
    failure = api_failure(error, "h:1")
    assert failure.what.splitlines() == ["wrong (FIELD_INVALID)", "a: is wrong", "b: too"]
    assert failure.where == "run r-1, at h:1"
    assert failure.exit_code == 1


def test_a_problem_that_the_message_tells_already_is_listed_once() -> None:
    error = PerdureApiError(
        "the definition has 1 problem: name: it is required",
        code="INVALID_ARGUMENT",
        reason="DEFINITION_INVALID",
        fields=(FieldProblem("name", "it is required"),),
    )
    assert api_failure(error, "h:1").what.splitlines() == [
        "the definition has 1 problem (DEFINITION_INVALID)",
        "name: it is required",
    ]


@pytest.mark.parametrize("code", ["INTERNAL", "DEADLINE_EXCEEDED", "ABORTED"])
def test_every_failure_says_what_to_do(code: str) -> None:
    failure = api_failure(PerdureApiError("x", code=code, reason="NEW_REASON"), "h:1")
    assert failure.do_this
    assert failure.exit_code == (3 if code == "DEADLINE_EXCEEDED" else 1)


def test_r12_values_become_exact_json_and_bytes_stay() -> None:
    assert to_payload({"n": 2**64}) == b'{"n": 18446744073709551616}'
    assert to_payload("\N{SNOWMAN}") == '"\N{SNOWMAN}"'.encode()
    assert to_payload("\ud800") == b'"\\ud800"'
    assert to_payload(b"anything") == b"anything"
    with pytest.raises(ValueError, match="JSON"):
        to_payload(float("nan"))


INVALID = "name: w\nnodes: {a: {}, b: {needs: [c], task: {handler: h}}}\n"
PLACES = ("nodes.a", "nodes.b.needs[0]")


def test_a_definition_is_checked_here_where_nobody_answers(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    path = tmp_path / "w.yaml"
    path.write_text(INVALID)
    result = perdure("workflow", "validate", str(path), "--address", f"127.0.0.1:{port}")
    assert result.exit_code == 1
    notice, *told = result.stderr.splitlines()
    assert notice == f"no Perdure answers at 127.0.0.1:{port}; checked here"
    assert [line.partition(": ")[0] for line in told if line[0] != " "] == list(PLACES)
    assert result.stdout == f"{path}: 2 problem(s)\n"


def test_a_local_check_tells_every_problem_with_its_reason_and_hint(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(INVALID)
    told = json.loads(perdure("workflow", "validate", "--local", "--json", str(path)).stdout)
    assert [problem["path"] for problem in told["problems"]] == list(PLACES)
    assert told["problems"][0]["hint"].startswith("one of task, http,")
    path.write_text("name: w\nnodes: {a: {task: {handler: h}}}\n")
    good = perdure("workflow", "validate", "--local", str(path))
    assert (good.exit_code, good.stdout) == (0, f"{path}: no problem(s)\n")


def test_without_the_machine_a_local_check_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(INVALID)
    monkeypatch.setattr(plugins, "entry_points", lambda **_: EntryPoints(()))
    result = perdure("workflow", "validate", "--local", str(path))
    assert result.exit_code == 1
    assert "pip install perdure-machine" in result.stderr
    (port,) = free_ports(1)
    unanswered = perdure("workflow", "validate", str(path), "--address", f"127.0.0.1:{port}")
    assert unanswered.exit_code == 3


BUILT = """
import perdure.workflow as wf

hello = wf.Workflow("hello", {wf.Node("a"): wf.Task("greet")})
other = 7
"""


def test_a_workflow_made_in_python_stands_where_a_file_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flows_of_a_test.py").write_text(BUILT)
    monkeypatch.chdir(tmp_path)
    good = perdure("workflow", "validate", "--local", "flows_of_a_test:hello")
    assert (good.exit_code, good.stderr) == (0, "")
    assert 'n_a["a<br/>task greet"]' in perdure("workflow", "graph", "flows_of_a_test:hello").stdout
    for name, what in (("flows_of_a_test:other", "no workflow"), ("nothing_there:x", "No module")):
        result = perdure("workflow", "graph", name)
        assert result.exit_code == 1
        assert what in result.stderr
