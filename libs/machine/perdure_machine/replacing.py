"""The machine's values, made and changed several times as fast as the standard library does it.

Values are frozen dataclasses with slots, some with dozens of fields, and a decision makes and
replaces them again and again. The standard functions set each field through the frozen class's
`__setattr__`. These set the fields of an object of a twin class, which has the same slots and is
not frozen, and give it the value's class at the end: Python lets an object change to a class whose
slots are the same ones in the same order (decision 20).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

Class = TypeVar("Class", bound=type[Any])

if TYPE_CHECKING:
    from dataclasses import replace as replace
else:

    def replace(value, /, **changes):
        """Return a copy of a frozen dataclass with slots in which the named fields are changed.

        Raises `TypeError` for a field that the class does not have.
        """
        copied = _copier(type(value))(value)
        try:
            for name, changed in changes.items():
                setattr(copied, name, changed)
        except AttributeError as unknown:
            raise TypeError(str(unknown)) from None
        copied.__class__ = type(value)
        return copied


def quickly_made(cls: Class) -> Class:
    """Give a frozen dataclass with slots an `__init__` that takes the same and is faster.

    Raises `TypeError` where a field's default is made for each value.
    """
    parameters, defaults = ["self"], dict[str, object]()
    for field in _fields(cls):
        if field.default_factory is not dataclasses.MISSING:
            raise TypeError(f"the default of {cls.__name__}.{field.name} is made for each value")
        is_given = field.default is dataclasses.MISSING
        parameters.append(field.name if is_given else f"{field.name}=_{field.name}")
        defaults[f"_{field.name}"] = field.default
    lines = [f"def __init__({', '.join(parameters)}):", " __put(self, '__class__', __twin)"]
    lines += [f" self.{field.name} = {field.name}" for field in _fields(cls)]
    lines += [" self.__class__ = __cls"]
    # Underscores, so that no field has such a name.
    names = {"__put": object.__setattr__, "__twin": _twin(cls), "__cls": cls}
    made = _compiled(lines, **names, **defaults)
    cls.__init__ = made["__init__"]
    return cls


@cache
def _copier(cls: Any) -> Callable[[Any], Any]:
    """Return a function that copies the fields of `cls` to an object of its twin."""
    lines = ["def copy(value):", " copied = twin()"]
    lines += [f" copied.{field.name} = value.{field.name}" for field in _fields(cls)]
    copy: Callable[[Any], Any] = _compiled([*lines, " return copied"], twin=_twin(cls))["copy"]
    return copy


def _twin(cls: Any) -> type[Any]:
    names = tuple(field.name for field in _fields(cls))
    return type(cls.__name__, (), {"__slots__": names})


def _fields(cls: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(cls)


def _compiled(lines: list[str], **names: object) -> dict[str, Any]:
    exec("\n".join(lines), names)
    return names
