"""Every route, found in the contracts, with every role, another org's key, and none."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import httpx
import pytest
from perdure_ingest.gate.table import RULES
from perdure_ingest.http.contracts import public_files
from perdure_ingest.http.routes import Route, Routes
from perdure_runtime.access import PERMISSIONS_OF, Role
from perdure_testkit.api_keys import give_key
from perdure_testkit.database import Database

ROUTES = Routes(public_files()).all
AT_ONCE = 20
SECRET = b'"what only its owner may see"'


@pytest.fixture
async def web(http_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=http_url, timeout=20.0, verify=False) as client:
        yield client


@pytest.fixture
async def admin(database: Database) -> asyncpg.Connection:
    return await database.connect()


async def verdicts(web: httpx.AsyncClient, key: str | None) -> dict[str, str]:
    """Ask for everything; return by route `let in`, or why the gate refused."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    turns = asyncio.Semaphore(AT_ONCE)

    async def verdict(route: Route) -> str:
        path = "".join(f"/{part.literal or uuid.uuid4()}" for part in route.segments)
        async with turns, web.stream(route.verb, path, headers=headers) as answer:
            if answer.status_code not in (401, 403):
                return "let in"
            await answer.aread()
            return str(answer.json()["details"][0]["reason"])

    found = await asyncio.gather(*(verdict(route) for route in ROUTES))
    return {name(route): told for route, told in zip(ROUTES, found, strict=True)}


def name(route: Route) -> str:
    return f"{route.verb} {route.path}"


def expected(route: Route, role: Role, *, home: bool) -> str:
    rule = RULES[route.method]
    allowed = rule.permission in PERMISSIONS_OF[role] and (home or not rule.installation)
    return "let in" if allowed else "PERMISSION_MISSING"


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("home", [True, False], ids=["home", "elsewhere"])
async def test_each_route_lets_in_whom_the_row_of_its_method_allows(
    web: httpx.AsyncClient, admin: asyncpg.Connection, role: Role, home: bool
) -> None:
    key = await give_key(admin, org="default" if home else "acme", roles=[role])
    assert await verdicts(web, key) == {
        name(route): expected(route, role, home=home) for route in ROUTES
    }


async def test_without_a_key_no_route_is_answered(web: httpx.AsyncClient) -> None:
    assert await verdicts(web, None) == dict.fromkeys(map(name, ROUTES), "KEY_MISSING")


async def test_by_no_route_is_another_org_s_key_shown_anything(
    web: httpx.AsyncClient, admin: asyncpg.Connection, rows: Any, coordinator: Any
) -> None:
    await give_key(admin, org="owner")
    run_id = await rows.run(org="owner", workflow="owned", run_input=SECRET, output=SECRET)
    await rows.step(run_id, org="owner", input=SECRET, output=SECRET)
    await rows.workflow("owned", org="owner")
    headers = {"Authorization": f"Bearer {await give_key(admin, org='other')}"}
    owned = {"run_id": run_id, "job_id": run_id}
    for route in ROUTES:
        named = (part.literal or owned.get(part.field, "owned") for part in route.segments)
        path = "".join(f"/{part}" for part in named)
        answer = await web.request(route.verb, path, headers=headers)
        assert SECRET not in answer.content, name(route)
        assert answer.status_code != 200 or str(run_id) not in answer.text, name(route)
    assert {item.org for item in coordinator.items} <= {"other"}
