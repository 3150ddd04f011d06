import pytest
from perdure_testkit.database import Database
from perdure_testkit.engines.driver import ORG, Driver
from perdure_testkit.engines.postgres import PostgresPort


@pytest.fixture
async def port(database: Database) -> PostgresPort:
    """One coordinator's store code, with a connection of its own and one of the superuser."""
    return await PostgresPort.open(database, orgs=[ORG])


@pytest.fixture
def driver(port: PostgresPort) -> Driver:
    return Driver(port)
