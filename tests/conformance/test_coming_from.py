"""The page for those who come from another engine: each line holds, each snippet ends as told."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest
from perdure_machine.states import RunStatus
from perdure_runtime.errors import PerdureError
from perdure_testkit.engines.driver import Driver
from perdure_testkit.engines.playing import Player
from perdure_testkit.engines.port import Bears, StartOf

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "coming_from.md").read_text()
MAPPING, SNIPPETS = PAGE.split("## Snippets")
CODE = re.compile(r"`([^`]+)`")
CODE_AND_WORD = re.compile(r"`([^`]+)` (\w+)")
SIGNAL = re.compile(r"`([^`]+)` `([^`]+)`(?: by `([^`]+)`)?(?: by the token that `([^`]+)` has)?")
TOKEN = re.compile(r"cb1_[\w-]+")
LEFT_OUT = "left out: "


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the mapping: what is there, how it is here, the snippets that show it."""

    there: str
    here: str
    snippets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal to the run, by a key, or by the token in what a node called `asker` is given."""

    name: str
    data: str
    key: str
    asker: str


@dataclass(frozen=True, slots=True)
class Case:
    """A run of a snippet: its input, the signals that it is sent, how it ends and with what.

    `nodes` says how some of its nodes end.
    """

    snippet: str
    given: str
    signals: tuple[Signal, ...]
    status: str
    result: str
    nodes: dict[str, str]


def cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def table_rows(text: str) -> Iterator[list[str]]:
    """Yield the rows of all tables, without their heads."""
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        for line in table.splitlines()[2:]:
            yield cells(line)


def rows() -> Iterator[Row]:
    for there, here, shown in table_rows(MAPPING):
        yield Row(there, here, tuple(re.findall(r"\[[^]]+\]\(#([^)]+)\)", shown)))


def snippets() -> dict[str, str]:
    found = re.findall(r"^### (\S+)\n\n```yaml\n(.*?)^```", SNIPPETS, re.MULTILINE | re.DOTALL)
    return dict(found)


def cases() -> Iterator[Case]:
    for section in SNIPPETS.split("\n### ")[1:]:
        name = section.split("\n", 1)[0]
        for given, *sent, end in table_rows(section):
            ended, *others = end.split("; ")
            status, _, result = ended.partition(" ")
            nodes = dict(CODE_AND_WORD.findall("; ".join(others)))
            signals = tuple(Signal(*found) for found in SIGNAL.findall("".join(sent)))
            yield Case(name, given.strip("`"), signals, status, result.strip("`"), nodes)


ROWS, DOCUMENTS, CASES = list(rows()), snippets(), list(cases())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.there)
def test_a_line_names_a_snippet_that_holds_what_it_says(row: Row) -> None:
    assert row.here.startswith(LEFT_OUT) != bool(row.snippets)
    shown = "\n".join(DOCUMENTS[name] for name in row.snippets)
    for code in CODE.findall(row.here) if row.snippets else ():
        for word in re.findall(r"\w+", code):
            assert re.search(rf"\b{word}\b", shown), word


def test_every_snippet_is_run_and_shows_something() -> None:
    assert {case.snippet for case in CASES} == set(DOCUMENTS)
    assert {name for row in ROWS for name in row.snippets} == set(DOCUMENTS)


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.snippet} {case.given}")
async def test_a_snippet_ends_as_the_page_says(driver: Driver, case: Case) -> None:
    document = DOCUMENTS[case.snippet]
    for name in re.findall(r"^ +connection: (\S+)", document, re.MULTILINE):
        await driver.engine.put_connection(driver.org, name, Bears())
    for one in document.split("---\n"):
        await driver.engine.publish(driver.org, one.encode())
    start = StartOf(case.snippet, case.given.encode())
    if case.status == "refused":
        with pytest.raises(PerdureError) as refused:
            await driver.engine.start(driver.org, start)
        assert refused.value.reason == case.result
        return
    run_id = (await driver.engine.start(driver.org, start)).run_id
    for signal in case.signals:
        await send(driver, run_id, signal)
    run = await Player(driver).play(run_id)
    assert case.nodes.items() <= (await driver.statuses(run_id)).items()
    assert run.status == case.status, run.error
    if run.status is RunStatus.COMPLETED:
        assert json.loads(run.output or b"null") == json.loads(case.result)
    else:
        assert (run.error.code if run.error else "") == case.result


async def send(driver: Driver, run_id: UUID, signal: Signal) -> None:
    if signal.asker:
        (token,) = TOKEN.findall(((await driver.step(run_id, signal.asker)).input or b"").decode())
        await driver.answer(token, signal.data.encode())
    elif signal.key:
        await driver.send_by(signal.key, signal.name, signal.data.encode())
    else:
        await driver.send(run_id, signal.name, signal.data.encode())
