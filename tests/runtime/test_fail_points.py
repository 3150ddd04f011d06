import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from perdure_runtime.errors import InvalidArgument, Reason
from perdure_runtime.fail_points import (
    ENVIRONMENT_VARIABLE,
    FailPointHit,
    Kill,
    Pause,
    PauseOnFile,
    Raise,
    Registry,
    Side,
    parse,
)


@pytest.fixture
def registry() -> Registry:
    return Registry()


async def test_an_unarmed_point_changes_nothing(registry: Registry) -> None:
    point = registry.declare("store.commit")
    async with point.around():
        pass
    with point.around_sync():
        pass


async def test_before_stands_for_an_operation_that_never_happened(registry: Registry) -> None:
    point, done = registry.declare("store.commit"), False
    with registry.arm("store.commit", "before", Raise()), pytest.raises(FailPointHit) as hit:
        async with point.around():
            done = True
    assert not done
    assert hit.value.metadata["point"] == "store.commit.before"


async def test_after_stands_for_an_answer_that_was_lost(registry: Registry) -> None:
    point, done = registry.declare("store.commit"), False
    with registry.arm("store.commit", "after", Raise()), pytest.raises(FailPointHit):
        async with point.around():
            done = True
    assert done


def test_both_sides_work_without_awaiting(registry: Registry) -> None:
    point = registry.declare("store.commit")
    for side in Side:
        armed = registry.arm("store.commit", side, Raise())
        with armed, pytest.raises(FailPointHit), point.around_sync():
            pass


async def test_after_is_not_passed_when_the_operation_itself_fails(registry: Registry) -> None:
    point = registry.declare("store.commit")
    with registry.arm("store.commit", "after", Raise()):
        with pytest.raises(KeyError):
            async with point.around():
                raise KeyError
        with pytest.raises(KeyError), point.around_sync():
            raise KeyError


async def test_arming_ends_with_its_context(registry: Registry) -> None:
    point = registry.declare("store.commit")
    with registry.arm("store.commit", "before", Raise()):
        pass
    await point.before()


async def test_a_pause_holds_the_operation_until_the_test_lets_go(registry: Registry) -> None:
    point, pause, steps = registry.declare("store.commit"), Pause(), list[str]()

    async def commit() -> None:
        async with point.around():
            steps.append("committed")

    with registry.arm("store.commit", "before", pause):
        task = asyncio.create_task(commit())
        await pause.reached.wait()
        steps.append("test acts")
        pause.release.set()
        await task
    assert steps == ["test acts", "committed"]


def test_an_event_pause_refuses_code_that_does_not_await(registry: Registry) -> None:
    point = registry.declare("store.commit")
    with registry.arm("store.commit", "before", Pause()), pytest.raises(RuntimeError):
        point.before_sync()


async def test_a_file_pause_holds_until_the_release_file_exists(tmp_path: Path) -> None:
    point = Registry().declare("store.commit")
    pause = PauseOnFile(tmp_path / "go")
    point.set_action(Side.BEFORE, pause)
    task = asyncio.create_task(point.before())
    while not pause.reached.exists():
        await asyncio.wait([task], timeout=0.005)
    assert not task.done()
    pause.release.touch()
    await asyncio.wait_for(task, 5)


def test_a_file_pause_holds_a_thread(tmp_path: Path) -> None:
    point = Registry().declare("store.commit")
    pause = PauseOnFile(tmp_path / "go")
    point.set_action(Side.BEFORE, pause)
    thread = threading.Thread(target=point.before_sync)
    thread.start()
    while not pause.reached.exists():
        thread.join(0.005)
    assert thread.is_alive()
    pause.release.touch()
    thread.join(5)
    assert not thread.is_alive()


CHILD = """
import os
from perdure_runtime import fail_points
POINT = fail_points.declare("store.commit")
fail_points.arm_from(os.environ)
with POINT.around_sync():
    print("committed", flush=True)
print("answered", flush=True)
"""


def run_child(armed: str) -> subprocess.CompletedProcess[str]:
    environ = os.environ | {ENVIRONMENT_VARIABLE: armed}
    return subprocess.run(
        [sys.executable, "-c", CHILD], env=environ, capture_output=True, text=True, check=False
    )


def test_kill_ends_the_process_between_commit_and_answer() -> None:
    child = run_child("store.commit.after=kill")
    assert child.returncode == -signal.SIGKILL
    assert child.stdout.split() == ["committed"]


def test_with_a_token_only_the_process_that_takes_it_dies(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch()
    assert run_child(f"store.commit.before=kill:{token}").returncode == -signal.SIGKILL
    assert run_child(f"store.commit.before=kill:{token}").stdout.split() == [
        "committed",
        "answered",
    ]


def test_a_point_declared_after_arming_is_armed(registry: Registry) -> None:
    registry.arm_from({ENVIRONMENT_VARIABLE: "late.module.before=raise"})
    with pytest.raises(FailPointHit):
        registry.declare("late.module").before_sync()


def test_the_environment_reads_every_action(tmp_path: Path) -> None:
    assert parse("a.b.before=raise; c.d.after=kill:/t ;c.d.before=kill;e.f.after=pause:/p;") == {
        ("a.b", Side.BEFORE): Raise(),
        ("c.d", Side.AFTER): Kill(Path("/t")),
        ("c.d", Side.BEFORE): Kill(None),
        ("e.f", Side.AFTER): PauseOnFile(Path("/p")),
    }


@pytest.mark.parametrize(
    "entry",
    ["a.b=raise", "a.b.during=raise", "a.b.after", "a.b.after=explode", "a.b.after=pause",
     "A.b.after=raise", ".after=raise", "a.b.after=raise:x"],
)  # fmt: skip
def test_a_malformed_environment_is_refused_by_name(entry: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        parse(f"ok.point.after=raise;{entry}")
    assert refused.value.reason is Reason.CONFIG_INVALID
    assert [violation.field for violation in refused.value.violations] == [ENVIRONMENT_VARIABLE]
    assert repr(entry) in refused.value.message


def test_a_name_is_declared_once(registry: Registry) -> None:
    point = registry.declare("store.commit")
    assert registry.declared() == {"store.commit": point}
    with pytest.raises(ValueError, match="twice"):
        registry.declare("store.commit")
    with pytest.raises(ValueError, match="form"):
        registry.declare("Commit")


def test_arming_an_undeclared_point_is_an_error(registry: Registry) -> None:
    with pytest.raises(KeyError), registry.arm("no.such", "before", Raise()):
        pass
