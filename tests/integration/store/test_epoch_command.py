"""`perdure epoch`: what an operator says of failovers, once and for those to come."""

from __future__ import annotations

import asyncio

import pytest
from perdure_store.cli import main
from perdure_testkit.database import Database

TRUSTED = "failovers lose nothing, the operator says"
WAIT = "calls that no key protects wait"


@pytest.mark.parametrize(("said", "waits"), [("trust", False), ("distrust", True)])
async def test_p4_what_is_said_of_failovers_holds_for_those_to_come(
    database: Database, capsys: pytest.CaptureFixture[str], said: str, waits: bool
) -> None:
    connection = await database.connect()
    await command(database, said, "--reason", "synchronous_commit")
    await connection.execute("UPDATE epochs SET timeline = timeline - 1")  # and it fails over
    capsys.readouterr()
    await command(database, "show")
    shown = capsys.readouterr().out
    assert (TRUSTED in shown, WAIT in shown) == (not waits, waits)
    noted = await connection.fetchval(
        "SELECT action || ' ' || convert_from(details, 'UTF8') FROM audit_log"
    )
    assert noted.startswith(f"epoch.{said} ")
    assert "synchronous_commit" in noted


async def test_p4_a_next_epoch_keeps_what_was_said_of_failovers(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    await command(database, "trust")
    await command(database, "raise")
    shown = capsys.readouterr().out
    assert "epoch 1, begun" in shown
    assert shown.count(TRUSTED) == 2


async def test_p4_a_restore_to_another_system_waits_though_failovers_are_trusted(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    connection = await database.connect()
    await command(database, "trust")
    await connection.execute("UPDATE epochs SET system_id = system_id + 1")
    await command(database, "show")
    assert WAIT in capsys.readouterr().out


async def command(database: Database, *arguments: str) -> None:
    """Give the command as the owner of the schema."""
    given = ["epoch", *arguments, "--actor", "ann", "--database-url", database.url()]
    assert await asyncio.to_thread(main, given) == 0
