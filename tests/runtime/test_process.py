import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest

SERVICE = """
import asyncio, sys
from dataclasses import dataclass
from perdure_runtime.config_groups import ServiceConfig
from perdure_runtime.lifecycle import Component
from perdure_runtime.process import run_service

def say(word):
    print(word, flush=True)

@dataclass(frozen=True, kw_only=True)
class PumpConfig(ServiceConfig):
    SERVICE = "pump"

class Pump(Component):
    async def on_start(self):
        if mode == "broken":
            raise OSError("no such pump")
        say("started")

    async def drain(self):
        say("draining")
        if mode in ("slow", "stuck"):
            await asyncio.Event().wait()

    async def on_stop(self):
        say("stopped")

async def build(config, process):
    return Pump()

mode = sys.argv[1]
sys.exit(run_service(PumpConfig, build))
"""


class Child:
    """The service above in a process of its own."""

    def __init__(self, mode: str, **environ: str) -> None:
        kept = {name: text for name, text in os.environ.items() if not name.startswith("PERDURE_")}
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVICE, mode],
            env=kept | {"PERDURE_LOG_FORMAT": "json"} | environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def said(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def logged(self, action: str) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if f'"action":"{action}"' in line:
                return
        raise AssertionError(f"{action} was never logged")

    def end(self) -> tuple[int, str, str]:
        out, err = self._process.communicate(timeout=20)
        return self._process.returncode, out, err

    def discard(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


@pytest.fixture
def children() -> Iterator[list[Child]]:
    started = list[Child]()
    yield started
    for child in started:
        child.discard()


def begin(children: list[Child], mode: str, **environ: str) -> Child:
    child = Child(mode, **environ)
    children.append(child)
    return child


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_stops_and_ends_with_zero(
    children: list[Child], number: signal.Signals
) -> None:
    child = begin(children, "fine")
    assert child.said() == "started"
    child.logged("service.started")
    child.send(number)
    code, out, err = child.end()
    assert (code, out.split()) == (0, ["draining", "stopped"])
    assert '"action":"service.stopped"' in err


def test_a_drain_that_takes_too_long_is_ended(children: list[Child]) -> None:
    child = begin(children, "slow", PERDURE_DRAIN_SECONDS="0.05")
    child.logged("service.started")
    child.send(signal.SIGTERM)
    code, out, err = child.end()
    assert (code, out.split()) == (0, ["started", "draining", "stopped"])
    assert '"action":"service.forced"' in err


def test_a_second_signal_ends_a_drain_at_once(children: list[Child]) -> None:
    child = begin(children, "stuck", PERDURE_DRAIN_SECONDS="3600")
    child.logged("service.started")
    child.send(signal.SIGTERM)
    assert [child.said(), child.said()] == ["started", "draining"]
    child.send(signal.SIGTERM)
    code, out, _ = child.end()
    assert (code, out.split()) == (0, ["stopped"])


def test_a_configuration_that_is_refused_is_printed_and_starts_nothing(
    children: list[Child],
) -> None:
    child = begin(children, "fine", PERDURE_OPS_PORT="99999", PERDURE_OPS_PROT="1")
    code, out, err = child.end()
    assert (code, out) == (2, "")
    assert "PERDURE_OPS_PORT: must be at most 65535, is 99999" in err
    assert "PERDURE_OPS_PROT: is not a setting of any service; did you mean" in err
    assert "Traceback" not in err


def test_malformed_fail_points_are_refused_at_start(children: list[Child]) -> None:
    code, _, err = begin(children, "fine", PERDURE_FAIL_POINTS="explode").end()
    assert code == 2
    assert "PERDURE_FAIL_POINTS" in err


def test_a_service_that_cannot_start_says_why_and_ends_with_one(children: list[Child]) -> None:
    code, _, err = begin(children, "broken").end()
    assert code == 1
    assert '"action":"service.start_failed"' in err
    assert "no such pump" in err


def test_the_ops_port_of_a_process_follows_its_life(children: list[Child]) -> None:
    child = begin(children, "stuck", PERDURE_OPS_PORT=str(port := free_port()))
    child.logged("service.started")
    assert httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
    child.send(signal.SIGTERM)
    child.logged("service.draining")
    assert httpx.get(f"http://127.0.0.1:{port}/readyz").json() == {"process": "draining"}
    assert httpx.get(f"http://127.0.0.1:{port}/livez").status_code == 200


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
