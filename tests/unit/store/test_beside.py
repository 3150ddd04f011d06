"""What is done beside something that is waited for."""

import asyncio

import pytest
from perdure_store.apply.beside import Beside


async def turn() -> None:
    turned = asyncio.Event()
    asyncio.get_running_loop().call_soon(turned.set)
    await turned.wait()


async def test_it_is_done_as_soon_as_something_is_waited_for() -> None:
    done: list[int] = []
    beside = Beside(lambda: done.append(1))
    assert done == []
    await turn()
    assert done == [1]
    beside.end()


async def test_it_is_left_undone_if_nothing_was_waited_for() -> None:
    done: list[int] = []
    Beside(lambda: done.append(1)).end()
    await turn()
    assert done == []


async def test_its_failure_is_raised_at_the_end() -> None:
    def fail() -> None:
        raise KeyError("x")

    beside = Beside(fail)
    await turn()
    with pytest.raises(KeyError):
        beside.end()
