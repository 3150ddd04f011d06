"""`perdure keys bootstrap`: the first key of an org, made straight in the database."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest
from perdure_runtime.api_keys import PresentedKey, read_key
from perdure_store.cli import main
from perdure_store.key_holders import holder_of
from perdure_store.keys import find_secrets, revoke_key
from perdure_store.members import put_member
from perdure_testkit.api_keys import give_key
from perdure_testkit.database import Database


async def bootstrap(database: Database, *arguments: str, role: str | None = None) -> int:
    given = [
        "keys",
        "bootstrap",
        *arguments,
        "--actor",
        "ann",
        "--database-url",
        database.url(role),
    ]
    return await asyncio.to_thread(main, given)


def presented(text: str) -> PresentedKey:
    key = read_key(text.strip())
    assert key is not None
    return key


async def org_of(database: Database, text: str) -> str:
    """Return the org that a key stands for."""
    key = presented(text)
    (known,) = await find_secrets(await database.connect("ingest"), [key.prefix])
    holder = holder_of(known, key.digest)
    assert "keys:manage" in holder.permissions
    return holder.org


async def test_the_first_key_is_told_once_and_a_second_one_is_refused(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await bootstrap(database) == 0
    assert await org_of(database, capsys.readouterr().out) == "default"
    assert await bootstrap(database) == 1
    refused = capsys.readouterr()
    assert refused.out == ""
    assert "has an admin's key" in refused.err
    assert await bootstrap(database, "--another") == 0
    assert await org_of(database, capsys.readouterr().out) == "default"


async def test_the_key_of_a_member_who_is_no_admin_any_more_keeps_nobody_out(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    connection = await database.connect()
    await put_member(connection, "default", "maya", ["admin"], by="ann")
    await give_key(connection, org="default", roles=["admin"], member="maya")
    assert await bootstrap(database) == 1
    await put_member(connection, "default", "maya", ["viewer"], by="ann")
    assert await bootstrap(database) == 0
    assert await org_of(database, capsys.readouterr().out) == "default"


async def test_an_org_is_made_with_its_first_key_also_by_the_coordinator_s_role(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await bootstrap(database, "--org", "acme", role="coordinator") == 0
    assert await org_of(database, capsys.readouterr().out) == "acme"
    line = await (await database.connect()).fetchrow("SELECT org, actor, action FROM audit_log")
    assert line is not None
    assert tuple(line) == ("acme", "ann", "key.create")


async def test_a_file_is_for_its_owner_and_is_left_while_its_key_is_good(
    database: Database, tmp_path: Path
) -> None:
    file = tmp_path / "api_key"
    given = ("--another", "--output", str(file))
    assert await bootstrap(database, *given) == 0
    first = file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert await bootstrap(database, *given) == 0
    assert file.read_text() == first
    connection = await database.connect()
    key_id = await connection.fetchval("SELECT key_id FROM api_keys")
    await revoke_key(connection, "default", key_id, by="tests", reason="")
    assert await bootstrap(database, *given) == 0
    assert file.read_text() != first
    assert await org_of(database, file.read_text()) == "default"


async def test_only_one_of_two_at_once_makes_the_first_key(database: Database) -> None:
    done = await asyncio.gather(*(bootstrap(database, "--org", "acme") for _ in range(2)))
    assert sorted(done) == [0, 1]
