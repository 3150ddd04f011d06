"""Finds the handlers that a worker serves by importing what it was told to import."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Iterable, Mapping
from types import MappingProxyType, ModuleType

from perdure import Handler, Handlers
from perdure_runtime.errors import FieldViolation, InvalidArgument, Reason

SETTING = "PERDURE_WORKER_HANDLERS"


def load_handlers(paths: Iterable[str]) -> Mapping[str, Handler]:
    """Import each path and return the handlers of every `Handlers` object found there, by name.

    Raises InvalidArgument, CONFIG_INVALID, with everything wrong and what to do about it.
    """
    found: dict[str, tuple[Handler, str]] = {}
    problems: list[str] = []
    for path in paths:
        try:
            for handler in _handlers_of(path):
                _add(found, handler, path)
        except ValueError as problem:
            problems.append(str(problem))
    if problems:
        raise _refusal(problems)
    return MappingProxyType({name: handler for name, (handler, _) in sorted(found.items())})


def _handlers_of(path: str) -> list[Handler]:
    module = _import(path)
    sets = {id(value): value for value in vars(module).values() if isinstance(value, Handlers)}
    if not sets:
        raise ValueError(
            f"{path} ({_file(module)}) holds no perdure.Handlers object: make one at its top level "
            "and decorate the functions with @handlers.handler(name)"
        )
    return [handler for found in sets.values() for handler in found]


def _import(path: str) -> ModuleType:
    try:
        return importlib.import_module(path)
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "an unknown place"
        raise ValueError(
            f"{path} cannot be imported: {type(error).__name__}: {error} (at {where}): check the "
            "spelling, and that the worker's folder or PYTHONPATH holds the module"
        ) from error


def _add(found: dict[str, tuple[Handler, str]], handler: Handler, path: str) -> None:
    earlier, where = found.setdefault(handler.name, (handler, path))
    if earlier is not handler:
        raise ValueError(
            f"handler {handler.name!r} stands in {where} and in {path}: rename one of them"
        )


def _refusal(problems: list[str]) -> InvalidArgument:
    listed = "\n".join(f"  {SETTING}: {problem}" for problem in problems)
    return InvalidArgument(
        f"the handlers cannot be loaded:\n{listed}",
        reason=Reason.CONFIG_INVALID,
        violations=[FieldViolation(SETTING, problem) for problem in problems],
    )


def _file(module: ModuleType) -> str:
    return getattr(module, "__file__", None) or "no file"
