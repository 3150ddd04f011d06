import json
import signal
import socket
import stat
import urllib.request
from pathlib import Path

import pytest
from perdure_stack import services
from perdure_stack.backends import without_secret
from perdure_stack.errors import StackError
from perdure_stack.ports import free_port
from perdure_stack.record import StackLock, StackRecord
from perdure_stack.stack import DevStack

PROCESSES = ["coordinator", "relay", "worker", "worker-2", "timer", "sweeper", "ingest"]

DOCUMENTED_PORTS = (services.GRPC_PORTS, services.OPS_PORTS)


def environment_of(stack: DevStack, name: str) -> dict[str, str]:
    with urllib.request.urlopen(f"{stack.ports.ops_url(name)}/env", timeout=5) as response:
        told: dict[str, str] = json.load(response)
        return told


def entries(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def mode_of(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


async def test_each_service_is_told_what_its_duty_needs_and_a_worker_no_database(
    place: Path, journal: Path, fake_perdure: dict[str, str]
) -> None:
    stack = DevStack(
        place / "stack",
        free_ports=True,
        workers=2,
        durable=False,
        service_env={"worker": {"LANE": "io", "KIND": "w"}, "worker-2": {"LANE": "slow"}},
        environ={**fake_perdure, "PERDURE_RELAY_OPS_PORT": "1", "PERDURE_LOG_FORMAT": "json"},
    )
    async with stack:
        told = {name: environment_of(stack, name) for name in PROCESSES}
        record = StackRecord.read(stack.directory)
        assert record == stack.record
        assert mode_of(stack.directory / "stack.json") == 0o600

    assert StackRecord.read(stack.directory) is None
    assert list(record.services) == PROCESSES
    server = record.database_url.removeprefix("postgresql://postgres@")
    assert told["relay"]["PERDURE_DATABASE_URL"] == f"postgresql://perdure_relay@{server}"
    assert told["timer"]["PERDURE_DATABASE_DIRECT_URL"] == f"postgresql://perdure_timer@{server}"
    assert told["ingest"]["PERDURE_GRPC_PORT"] == record.ingest_address.split(":")[1]
    assert record.http_url.endswith(":" + told["ingest"]["PERDURE_HTTP_PORT"])
    assert told["worker"]["PERDURE_COORDINATOR_ADDRESS"] == record.coordinator_address
    assert [name for name in PROCESSES if not any("DATABASE" in key for key in told[name])] == [
        "worker",
        "worker-2",
    ]
    assert [name for name in PROCESSES if "PERDURE_REDIS_URL" in told[name]] == [
        "relay",
        "worker",
        "worker-2",
    ]
    assert [(told[name]["KIND"], told[name]["LANE"]) for name in ("worker", "worker-2")] == [
        ("w", "io"),
        ("w", "slow"),
    ]
    assert {each["PERDURE_LOG_FORMAT"] for each in told.values()} == {"json"}
    assert not any("PERDURE_RELAY_OPS_PORT" in each for each in told.values())
    happened = entries(journal)
    assert happened[:2] == ["store migrate --database-url", "store keys bootstrap"]
    assert [line for line in happened if line.endswith("stop")] == [
        f"{name} stop"
        for name in ("ingest", "sweeper", "timer", "worker", "worker", "relay", "coordinator")
    ]


async def test_given_servers_are_used_as_they_are_and_a_restarted_service_is_on_record(
    place: Path, fake_perdure: dict[str, str]
) -> None:
    async with DevStack(
        place / "one", free_ports=True, durable=False, environ=fake_perdure
    ) as lender:
        given = {
            "PERDURE_DATABASE_URL": lender.record.database_url,
            "PERDURE_REDIS_URL": lender.record.redis_url,
        }
        async with DevStack(
            place / "two", free_ports=True, environ={**fake_perdure, **given}
        ) as borrower:
            assert (borrower.backends.postgres, borrower.backends.valkey) == (None, None)
            told = environment_of(borrower, "relay")
            assert {key: told[key] for key in given} == given
            assert told["PERDURE_DATABASE_DIRECT_URL"] == given["PERDURE_DATABASE_URL"]
            assert await borrower.supervisor.kill("timer") == -signal.SIGKILL
            await borrower.supervisor.start("timer")
            record = StackRecord.read(borrower.directory)
            assert record is not None
            assert record.services["timer"].pid == borrower.supervisor.pid("timer")
        assert lender.backends.postgres is not None
        assert lender.backends.postgres.is_running


async def test_a_failed_migration_leaves_nothing_running_and_shows_what_it_said(
    place: Path, fake_perdure: dict[str, str]
) -> None:
    environ = {**fake_perdure, "FAKE_MIGRATE_STATUS": "2"}
    stack = DevStack(place / "s", free_ports=True, durable=False, environ=environ)
    with pytest.raises(StackError, match="the migration failed: it ended with status 2") as caught:
        await stack.start()
    assert "the migration speaks" in caught.value.do_this
    assert stack.backends.postgres is not None
    assert not stack.backends.postgres.is_running
    await stack.destroy()
    assert names_in(stack.directory) == ["logs", "stack.lock"]
    lock = StackLock(stack.directory)
    lock.acquire()
    lock.release()


async def test_a_busy_documented_port_is_named_with_the_way_around(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        grpc, ops = ({name: free_port() for name in names} for names in DOCUMENTED_PORTS)
        monkeypatch.setattr(services, "GRPC_PORTS", grpc)
        monkeypatch.setattr(services, "HTTP_PORT", free_port())
        monkeypatch.setattr(services, "OPS_PORTS", {**ops, "timer": port})
        with pytest.raises(StackError) as caught:
            await DevStack(place / "s", environ={}).start()
    assert caught.value.where == f"127.0.0.1:{port}"
    assert "timer's ops server" in caught.value.what
    assert "--free-ports" in caught.value.do_this


@pytest.mark.parametrize(
    ("setting", "url"),
    [
        ("PERDURE_DATABASE_URL", "postgresql://me:secret@127.0.0.1:1/x?password=secret"),
        ("PERDURE_DATABASE_URL", "mysql://me:secret@127.0.0.1/x"),
        ("PERDURE_REDIS_URL", "redis://me:secret@127.0.0.1:1/0"),
        ("PERDURE_REDIS_URL", "http://me:secret@127.0.0.1/0"),
    ],
)
async def test_a_wrong_url_is_named_without_its_secret(
    setting: str, url: str, place: Path, fake_perdure: dict[str, str]
) -> None:
    stack = DevStack(place / "s", free_ports=True, environ={**fake_perdure, setting: url})
    with pytest.raises(StackError, match="cannot be reached") as caught:
        await stack.start()
    assert caught.value.where == f"{setting}, {without_secret(url)}"
    assert "secret" not in str(caught.value)


def test_a_module_that_is_not_installed_is_named() -> None:
    with pytest.raises(StackError, match="perdure_nothing is not installed") as caught:
        services.module_command("perdure_nothing")
    assert "make setup" in caught.value.do_this


def test_two_stacks_do_not_share_a_directory(place: Path) -> None:
    lock, rival = StackLock(place), StackLock(place)
    lock.acquire()
    with pytest.raises(StackError, match="already runs in this directory"):
        rival.acquire()
    lock.release()
    rival.acquire()
    rival.release()


def test_without_secret_keeps_only_what_may_be_shown() -> None:
    assert without_secret("postgresql://a:b@h:1/d?password=b") == "postgresql://a@h:1/d"
    assert without_secret("redis://:b@h/0") == "redis://h/0"
    assert without_secret("redis://h:port/0") == "redis://h/0"
