import asyncio
import json
import signal
import urllib.request
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
from perdure_stack import supervisor as supervisor_module
from perdure_stack.errors import StackError
from perdure_stack.services import ServiceSpec
from perdure_stack.supervisor import Supervisor

Describe = Callable[..., ServiceSpec]


@pytest.fixture
async def supervise(place: Path) -> AsyncIterator[Callable[..., Supervisor]]:
    made: list[Supervisor] = []

    def make(*specs: ServiceSpec, **options: object) -> Supervisor:
        chosen: Mapping[str, object] = {"base_env": {"BASE": "1"}, **options}
        made.append(Supervisor(specs, logs=place / "logs", **chosen))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for supervisor in made:
        await supervisor.stop_all()


def get(spec: ServiceSpec, path: str) -> bytes:
    address = spec.ready_url.removesuffix("/readyz") + path
    with urllib.request.urlopen(address, timeout=5) as response:
        body: bytes = response.read()
        return body


def entries(journal: Path) -> list[str]:
    return journal.read_text(encoding="utf-8").splitlines()


async def test_services_are_ready_after_the_start_and_stop_in_reverse(
    fake_service: Describe, supervise: Callable[..., Supervisor], journal: Path
) -> None:
    specs = [fake_service(name) for name in ("coordinator", "worker", "worker-2", "ingest")]
    supervisor = supervise(*specs)
    await supervisor.start_all()
    assert all(get(spec, "/readyz") for spec in specs)
    await supervisor.stop_all()

    happened = entries(journal)
    assert happened[4:] == ["ingest stop", "worker-2 stop", "worker stop", "coordinator stop"]
    assert [supervisor.pid(name) for name in supervisor.names] == [None] * 4


async def test_one_service_is_killed_seen_and_started_alone_with_other_variables(
    fake_service: Describe, supervise: Callable[..., Supervisor]
) -> None:
    victim, other = fake_service("worker", {"ROLE": "one"}), fake_service("relay")
    supervisor = supervise(victim, other)
    await supervisor.start_all()
    untouched = supervisor.pid("relay")

    assert await supervisor.kill("worker") == -signal.SIGKILL
    assert await supervisor.wait_exit("worker", 5) == -signal.SIGKILL
    await supervisor.start("worker", {"PERDURE_FAIL_POINTS": "here"})
    told = json.loads(get(victim, "/env"))
    assert (told["BASE"], told["ROLE"], told["PERDURE_FAIL_POINTS"]) == ("1", "one", "here")

    await supervisor.restart("worker")
    assert "PERDURE_FAIL_POINTS" not in json.loads(get(victim, "/env"))
    assert supervisor.pid("relay") == untouched


async def test_a_process_that_kills_itself_is_awaited_and_stays_down_without_restart(
    fake_service: Describe, supervise: Callable[..., Supervisor]
) -> None:
    spec = fake_service("timer")
    supervisor = supervise(spec)
    await supervisor.start_all()
    with pytest.raises(OSError, match="closed connection"):
        get(spec, "/die")
    assert await supervisor.wait_exit("timer", 10) == -signal.SIGKILL
    assert supervisor.pid("timer") is None


async def test_with_restart_a_dead_service_comes_back_and_a_stopped_one_does_not(
    fake_service: Describe,
    supervise: Callable[..., Supervisor],
    journal: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervisor_module, "BACKOFF_BASE", 0.01)
    started = asyncio.Semaphore(0)
    spec = fake_service("sweeper")
    supervisor = supervise(spec, restart=True, on_start=started.release)
    await supervisor.start_all()
    await started.acquire()
    before = supervisor.pid("sweeper")
    await supervisor.kill("sweeper")
    await asyncio.wait_for(started.acquire(), 10)
    await supervisor.wait_ready("sweeper")
    assert supervisor.pid("sweeper") not in (None, before)

    assert await supervisor.stop("sweeper") == 0
    happened = entries(journal)
    assert happened == ["sweeper start", "sweeper start", "sweeper stop"]
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(started.acquire(), 0.2)


async def test_a_service_that_ends_at_its_start_stops_the_others_and_shows_its_log(
    fake_service: Describe, supervise: Callable[..., Supervisor]
) -> None:
    supervisor = supervise(fake_service("coordinator"), fake_service("relay", {"FAKE_EXIT": "3"}))
    with pytest.raises(StackError, match="relay failed: it ended with status 3") as caught:
        await supervisor.start_all()
    assert "cannot go on" in caught.value.do_this
    assert caught.value.where == str(supervisor.log("relay"))
    assert supervisor.pid("coordinator") is None


async def test_a_service_that_never_is_ready_is_an_error_in_bounded_time(
    fake_service: Describe, supervise: Callable[..., Supervisor]
) -> None:
    supervisor = supervise(fake_service("ingest", {"FAKE_UNREADY": "1"}), ready_timeout=0.5)
    with pytest.raises(StackError, match=r"not ready after 0\.5 s"):
        await supervisor.start_all()
    assert supervisor.pid("ingest") is None


async def test_a_service_that_ignores_sigterm_is_killed(
    fake_service: Describe, supervise: Callable[..., Supervisor]
) -> None:
    supervisor = supervise(fake_service("worker", {"FAKE_STUBBORN": "1"}), stop_timeout=0.2)
    await supervisor.start_all()
    assert await supervisor.stop("worker") == -signal.SIGKILL
