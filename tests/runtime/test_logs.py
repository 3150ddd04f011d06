import asyncio
import io
import json
import logging
from collections.abc import Iterator

import pytest
from perdure_runtime import logs

logger = logging.getLogger("perdure.test")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield io.StringIO()
    logging.captureWarnings(False)
    root.handlers[:] = before
    root.setLevel(level)


def test_a_json_line_says_what_happened_to_which_step(stream: io.StringIO) -> None:
    logs.configure("worker", form="json", stream=stream, source=lambda: {"trace_id": "4bf9"})
    with logs.bound(org="acme", run="0190", step="s1", fence=3):
        logs.log(logger, "step.done", outcome="completed", seconds=0.25)
    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "info", "action": "step.done", "logger": "perdure.test", "service": "worker",
        "trace_id": "4bf9", "org": "acme", "run": "0190", "step": "s1", "fence": 3,
        "outcome": "completed", "seconds": 0.25,
    }  # fmt: skip


def test_bound_fields_end_with_their_context_and_nest(stream: io.StringIO) -> None:
    logs.configure("worker", form="json", stream=stream)
    with logs.bound(run="r", step="outer"):
        with logs.bound(step="inner"):
            logs.log(logger, "a.b")
        logs.log(logger, "a.b", step="own")
    logs.log(logger, "a.b")
    seen = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line.get("step") for line in seen] == ["inner", "own", None]
    assert [line.get("run") for line in seen] == ["r", "r", None]


async def test_tasks_begun_within_keep_the_bound_fields(stream: io.StringIO) -> None:
    logs.configure("worker", form="json", stream=stream)

    async def work() -> None:
        logs.log(logger, "a.b")

    async def run(name: str) -> None:
        with logs.bound(run=name):
            await asyncio.create_task(work())

    await asyncio.gather(run("one"), run("two"))
    assert [json.loads(line)["run"] for line in stream.getvalue().splitlines()] == ["one", "two"]


def test_f100_texts_that_no_store_takes_are_cleaned(stream: io.StringIO) -> None:
    logs.configure("worker", form="json", stream=stream)
    logs.log(logger, "a.b", error="nul \0 surrogate \ud800")
    stream.getvalue().encode()
    assert json.loads(stream.getvalue())["error"] == "nul \ufffd surrogate \ufffd"


def test_an_error_carries_its_stack_in_one_line(stream: io.StringIO) -> None:
    logs.configure("worker", form="json", stream=stream)
    try:
        raise ValueError("boom")
    except ValueError as error:
        logs.log_failure(logger, "a.failed", error, attempt=2)
    (line,) = [json.loads(text) for text in stream.getvalue().splitlines()]
    assert (line["level"], line["error_type"], line["attempt"]) == ("error", "ValueError", 2)
    assert "boom" in line["stack"]


def test_a_console_line_is_readable_and_keeps_one_line_per_record(stream: io.StringIO) -> None:
    logs.configure("worker", form="console", stream=stream)
    with logs.bound(step="s1", run="r1"):
        logs.log(logger, "step.done", note='two\nlines "quoted"', empty="")
    (line,) = stream.getvalue().splitlines()
    assert line[12:] == (
        r' INFO    worker      step.done run=r1 step=s1 note="two\nlines \"quoted\"" empty=""'
    )


def test_auto_is_json_unless_a_terminal_reads_along(stream: io.StringIO) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    logs.configure("worker", stream=stream)
    logs.log(logger, "a.b")
    assert json.loads(stream.getvalue())["action"] == "a.b"
    terminal = Terminal()
    logs.configure("worker", stream=terminal)
    logs.log(logger, "a.b", level=logging.WARNING)
    assert "\x1b[33m" in terminal.getvalue()


def test_lines_below_the_level_cost_nothing_and_say_nothing(stream: io.StringIO) -> None:
    class Unprintable:
        def __str__(self) -> str:
            raise AssertionError("formatted")

    logs.configure("worker", form="json", level="warning", stream=stream)
    logs.log(logger, "a.b", value=Unprintable())
    assert stream.getvalue() == ""


def test_a_field_cannot_take_the_place_of_what_is_fixed(stream: io.StringIO) -> None:
    logs.configure("worker", form="json", stream=stream)
    logs.emit(logger, "a.b", {"action": "x", "time": 0, "logger": "y"})
    line = json.loads(stream.getvalue())
    assert (line["action"], line["logger"]) == ("a.b", "perdure.test")
    assert list(line)[:3] == ["time", "level", "action"]


def test_lines_of_other_libraries_come_out_in_the_same_form(stream: io.StringIO) -> None:
    logs.configure("worker", form="json", stream=stream)
    logging.getLogger("asyncpg").warning("slow %s", "query")
    assert json.loads(stream.getvalue())["action"] == "slow query"
