"""Handlers: the functions that do a workflow's work, by name.

    import perdure

    handlers = perdure.Handlers()

    @handlers.handler("crm.lookup")
    async def lookup(input, ctx):
        found = await crm.get(input["email"])
        if found is None:
            raise perdure.Permanent("NO_SUCH_CUSTOMER", "the CRM does not know this address")
        return {"customer": found.id}

A worker that is told this module's import path serves every `Handlers` object it finds in it.
`input` is the step's input as Python values, None if the node takes none; what is returned becomes
the node's output: any value that JSON can hold, or `RawJson` for bytes that must stay as they are.
`def` functions run in threads, `async def` functions in an event loop of their own.

A try may be repeated: after an error, and after a worker died. What it does outside must bear that;
`ctx.key_prefix` is the same for every try of the step and makes a good idempotency key.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

HandlerFunction = Callable[[Any, Any], Any]
"""`f(input, ctx)`, plain or async; `ctx` is a `perdure.HandlerContext`."""

FunctionT = TypeVar("FunctionT", bound=HandlerFunction)


@dataclass(frozen=True, slots=True)
class RawJson:
    """A handler's output as JSON text that stands already; it is stored byte for byte."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Handler:
    """A function under the name by which definitions call it.

    `is_async` tells whether it is `async def`, or an object whose call is.
    """

    name: str
    function: HandlerFunction
    is_async: bool = field(init=False)

    def __post_init__(self) -> None:
        """Look at the function once, since it may be called often."""
        object.__setattr__(self, "is_async", _is_async(self.function))


class Handlers:
    """A set of handlers that a module makes and fills; workers find it by importing the module."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    def handler(self, name: str) -> Callable[[FunctionT], FunctionT]:
        """Register the decorated `f(input, ctx)` under `name` and leave it as it is.

        ValueError if the name is empty or taken; TypeError if what is decorated cannot be called
        with two arguments.
        """

        def register(function: FunctionT) -> FunctionT:
            self.add(name, function)
            return function

        return register

    def add(self, name: str, function: HandlerFunction) -> None:
        """Register a function that is made elsewhere; raises as `handler` does."""
        if not name or name != name.strip():
            raise ValueError(f"{name!r} is no name for a handler: give one without outer spaces")
        if name in self._handlers:
            raise ValueError(f"handler {name!r} is registered twice: give one another name")
        _check_signature(name, function)
        self._handlers[name] = Handler(name, function)

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._handlers.values())

    def __len__(self) -> int:
        return len(self._handlers)


def _is_async(function: HandlerFunction) -> bool:
    call = getattr(function, "__call__", None)  # noqa: B004 - its kind matters, not its presence
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _check_signature(name: str, function: HandlerFunction) -> None:
    try:
        inspect.signature(function).bind(None, None)
    except TypeError as problem:
        raise TypeError(
            f"handler {name!r} must be callable as f(input, ctx): {problem}"
        ) from problem
    except ValueError:
        # Some built-in callables have no signature to look at; the first call will tell.
        return
