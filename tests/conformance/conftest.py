from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from perdure_testkit.database import temporary_database
from perdure_testkit.engines.driver import ORG, Driver
from perdure_testkit.engines.memory import MemoryPort
from perdure_testkit.engines.port import Engine
from perdure_testkit.engines.postgres import PostgresPort
from perdure_testkit.servers import Servers

RIVAL = "rival"

_PATIENT = """
ALTER ROLE perdure_coordinator IN DATABASE "{}" SET idle_in_transaction_session_timeout = '60s'
"""


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def postgres(servers: Servers) -> AsyncIterator[PostgresPort]:
    """One database and two connections for all tests: planning anew is what takes time."""
    async with temporary_database(servers.database_url, servers.template) as database:
        # To decide about hundreds of steps takes seconds on a machine that does much else.
        await (await database.connect()).execute(_PATIENT.format(database.name))
        yield await PostgresPort.open(database, orgs=[ORG, RIVAL])


@pytest.fixture(params=["memory", "postgres"])
def port(request: pytest.FixtureRequest) -> Engine:
    if request.param == "memory":
        return MemoryPort()
    port: PostgresPort = request.getfixturevalue("postgres")
    return port


@pytest_asyncio.fixture(loop_scope="session")
async def engine(port: Engine) -> AsyncIterator[Engine]:
    """Each engine in turn, empty; after each test everything has a way forward (R10)."""
    yield port
    try:
        assert not await port.no_way_forward()
    finally:
        if isinstance(port, PostgresPort):
            await port.clear()


@pytest.fixture
def driver(engine: Engine) -> Driver:
    return Driver(engine)


@pytest.fixture
def rival(engine: Engine) -> Driver:
    """Somebody of another org, on the same engine."""
    return Driver(engine, RIVAL)
