"""What the runbooks tell people to type fits the schema, the metrics and the commands there are."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import asyncpg
from perdure_contracts.internal.v1.coordinator_service_pb2 import TimerRef
from perdure_testkit.calls import Calls
from perdure_testkit.database import Database

RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks"
PAGES = sorted(RUNBOOKS.glob("*.md"))

BLOCK = re.compile(r"^ *```sql\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(SELECT [^`]+)`")
METRIC = re.compile(r"perdure_[a-z_]+(?=[`{ )])")
DEFINED = re.compile(r'(?:counter|gauge|histogram)\(\s*"([a-z_]+)"')


async def test_the_statements_of_a_runbook_run(database: Database) -> None:
    connection = await database.connect()
    problems = []
    for page in PAGES:
        text = page.read_text()
        for statement in [*map(textwrap.dedent, BLOCK.findall(text)), *INLINE.findall(text)]:
            try:
                await connection.execute(statement)
            except asyncpg.PostgresError as error:
                problems.append(f"{page.name}: {error}: {statement}")
    assert problems == []


async def test_a_step_without_an_outbox_row_is_brought_back_by_its_runbook(
    database: Database, calls: Calls
) -> None:
    run = await calls.start()
    admin = await database.connect()
    await admin.execute("DELETE FROM outbox")
    assert await database.without_way_forward()
    await admin.execute(_repair("INTO outbox"))
    assert not await database.without_way_forward()
    await calls.grant(run)


async def test_a_wait_without_a_timer_is_brought_back_by_its_runbook(
    database: Database, calls: Calls
) -> None:
    await calls.publish("name: pause\nnodes: {a: {wait: 1h}}")
    run = await calls.start("pause")
    admin = await database.connect()
    await admin.execute("DELETE FROM timers")
    assert await database.without_way_forward()
    await admin.execute(_repair("INTO timers"))
    assert not await database.without_way_forward()
    timer = await admin.fetchval("SELECT timer_id FROM timers WHERE run_id = $1", run)
    await calls.fire(TimerRef(timer_id=timer, run_id=str(run), org=calls.org))
    assert await admin.fetchval("SELECT status::text FROM runs") == "completed"


def _repair(into: str) -> str:
    page = (RUNBOOKS / "no_way_forward.md").read_text()
    (found,) = [block for block in BLOCK.findall(page) if into in block]
    return str(found)


def test_the_metrics_of_the_runbooks_exist() -> None:
    root = RUNBOOKS.parents[1]
    defined = {
        f"perdure_{name}"
        for folder in ("libs", "services")
        for path in (root / folder).rglob("perdure_*/**/*.py")
        for name in DEFINED.findall(path.read_text())
    }
    named = {name for page in PAGES for name in METRIC.findall(page.read_text())}
    assert named - defined - {"perdure_store"} == set()
    assert len(named) > 10


def test_every_runbook_is_listed() -> None:
    index = (RUNBOOKS / "README.md").read_text()
    assert [page.name for page in PAGES if f"({page.name})" not in index] == ["README.md"]
