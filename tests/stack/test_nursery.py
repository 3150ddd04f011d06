"""Processes that a nursery forks are told, seen and ended as any others."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from perdure_testkit.nursery import Nursery, NurseryChild

MODULE = "of_a_nursery"
SOURCE = """
import os, signal

def main():
    print(os.environ["SAID"], flush=True)
    if os.environ["SAID"] == "wait":
        signal.pause()
    return 3
"""


@pytest.fixture
async def nursery(place: Path) -> AsyncIterator[Nursery]:
    package = place / MODULE
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(SOURCE)
    path = os.pathsep.join([str(place), *sys.path])
    nursery = Nursery(place, [MODULE], {"PYTHONPATH": path})
    await nursery.start()
    yield nursery
    await nursery.stop()


def child_of(nursery: Nursery, place: Path, said: str) -> NurseryChild:
    return nursery.open_child(
        ("python", "-m", MODULE),
        log=place / f"{said}.log",
        environment={"SAID": said},
        orphan_signal=signal.SIGKILL,
    )


async def test_a_fork_has_its_own_environment_log_and_exit_status(
    nursery: Nursery, place: Path
) -> None:
    first, second = (child_of(nursery, place, said) for said in ("one", "two"))
    first.start()
    second.start()

    assert [await first.wait(10), await second.wait(10)] == [3, 3]
    assert (first.log_tail(), second.log_tail()) == (["one"], ["two"])


async def test_a_fork_that_is_killed_is_seen_to_be(nursery: Nursery, place: Path) -> None:
    child = child_of(nursery, place, "wait")
    child.start()

    assert await child.end(()) == -signal.SIGKILL
    assert not child.is_running


async def test_forks_die_with_their_nursery_which_forks_no_more(
    nursery: Nursery, place: Path
) -> None:
    child = child_of(nursery, place, "wait")
    child.start()
    await nursery.stop()

    assert await child.wait(10) == -signal.SIGKILL
    with pytest.raises(OSError, match="No such file"):
        child_of(nursery, place, "one").start()
