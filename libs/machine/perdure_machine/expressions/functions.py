"""Functions that CEL does not have: JSON, lists, sums, URLs, hashes, identifiers.

Each is a function of its arguments alone, so that a decision can be replayed. What one cannot take
is told in the form `CODE: message`, since CEL hands on the text of an error and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from uuid import UUID, uuid5

from cel_expr_python import cel  # type: ignore[import-untyped]

from perdure_machine.expressions.errors import ExpressionCode, ExpressionFailed
from perdure_machine.expressions.paths import NoPathError, at, keys_of
from perdure_machine.expressions.reads import CALLBACK
from perdure_machine.expressions.values import INT64, MAX_ITEMS, Json, decode, encode
from perdure_machine.payload import deeper_than

MAX_DEPTH = 64
"""Deepest nesting of a text that is read as JSON."""

_UUIDS = UUID("6f1c2f6e-3f3b-5d0c-9d59-7d0b1a4f3c11")
"""The namespace of the identifiers that texts give."""

_UNRESERVED = re.compile(r"[A-Za-z0-9._~-]")
_ESCAPED = re.compile(rb"%([0-9A-Fa-f]{2})")


def _parse(text: str) -> Json:
    data = text.encode()
    if deeper_than(data, MAX_DEPTH):
        raise _refused(ExpressionCode.LIMIT, f"it is nested deeper than {MAX_DEPTH} levels")
    try:
        json.loads(data, parse_constant=_no_constant, parse_int=str)
    except ValueError as error:
        raise _refused(ExpressionCode.TYPE, f"the text is no JSON: {error}") from error
    try:
        return decode(data, "", loops=True)
    except ExpressionFailed as failure:
        raise _refused(ExpressionCode(failure.expression_code), failure.message) from failure


def _no_constant(name: str) -> Json:
    raise ValueError(name)


def _format(value: object) -> str:
    return encode(value, "").decode()


def _range(count: int) -> list[int]:
    if not 0 <= count <= MAX_ITEMS:
        raise _refused(ExpressionCode.LIMIT, f"a range has 0 to {MAX_ITEMS} numbers, not {count}")
    return list(range(count))


def _slice(items: Sequence[object], start: int, end: int) -> list[object]:
    if not 0 <= start <= end:
        raise _refused(ExpressionCode.TYPE, f"there is no slice from {start} to {end}")
    return list(items[start:end])


def _distinct(items: Sequence[object]) -> list[object]:
    found: dict[bytes, object] = {}
    for item in items:
        found.setdefault(encode(item, ""), item)
    return list(found.values())


def _sort(items: Sequence[object]) -> list[object]:
    if all(isinstance(item, str) for item in items) or all(map(_is_number, items)):
        return sorted(items)  # type: ignore[type-var]
    raise _refused(ExpressionCode.TYPE, "only numbers alone and texts alone have an order")


def _group(items: Sequence[object], member: str) -> dict[str, list[object]]:
    groups: dict[str, list[object]] = {}
    for item in items:
        key = item.get(member) if isinstance(item, Mapping) else None
        if not isinstance(key, str):
            raise _refused(ExpressionCode.TYPE, f"an item has no text as its '{member}'")
        groups.setdefault(key, []).append(item)
    return groups


def _merge(first: Mapping[object, object], second: Mapping[object, object]) -> dict[object, object]:
    return {**first, **second}


def _sum(numbers: Sequence[object]) -> int | float:
    if not all(map(_is_number, numbers)):
        raise _refused(ExpressionCode.TYPE, "only numbers have a sum")
    total: int | float = sum(numbers)  # type: ignore[arg-type]
    if isinstance(total, int) and total not in INT64:
        raise _refused(ExpressionCode.NUMBER_OUT_OF_RANGE, f"{total} does not fit 64 bit")
    return total


def _get(value: object, path: str) -> object:
    found = _found(value, path)
    if not found:
        raise _refused(ExpressionCode.ABSENT, f"nothing is at '{path[:80]}'")
    return found[0]


def _get_or(value: object, path: str, default: object) -> object:
    found = _found(value, path)
    return found[0] if found else default


def _callback(run: Mapping[str, Mapping[str, str]], node: str) -> str:
    return run[CALLBACK][node]


def _found(value: object, path: str) -> tuple[object, ...]:
    try:
        return at(value, keys_of(path))
    except NoPathError as error:
        raise _refused(ExpressionCode.TYPE, str(error)) from error


def _url_encode(text: str) -> str:
    return "".join(
        each if _UNRESERVED.match(each) else "".join(f"%{byte:02X}" for byte in each.encode())
        for each in text
    )


def _url_decode(text: str) -> str:
    plain = _ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), text.encode())
    try:
        return plain.decode()
    except UnicodeDecodeError as error:
        raise _refused(ExpressionCode.TEXT_NOT_SUPPORTED, "it is not UTF-8") from error


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _uuid(text: str) -> str:
    return str(uuid5(_UUIDS, text))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _refused(code: ExpressionCode, message: str) -> ValueError:
    return ValueError(f"{code}: {message}")


_T = cel.Type
_LIST, _MAP = _T.List(_T.DYN), _T.Map(_T.DYN, _T.DYN)


def _function(
    name: str, answer: cel.Type, given: Sequence[cel.Type], does: Callable[..., object]
) -> cel.FunctionDecl:
    """Declare a function; one that begins with a dot is called on its first argument."""
    return cel.FunctionDecl(name.removeprefix("."), [_overload(name, answer, given, does)])


def _overload(
    name: str, answer: cel.Type, given: Sequence[cel.Type], does: Callable[..., object]
) -> cel.Overload:
    is_member = name.startswith(".")
    return cel.Overload(f"perdure_{does.__name__}", answer, given, is_member, does)


def _getter() -> cel.FunctionDecl:
    given = [_T.DYN, _T.STRING]
    return cel.FunctionDecl(
        "get",
        [
            _overload("get", _T.DYN, given, _get),
            _overload("get", _T.DYN, [*given, _T.DYN], _get_or),
        ],
    )


EXTENSION = cel.CelExtension(
    "perdure",
    [
        _function("json.parse", _T.DYN, [_T.STRING], _parse),
        _function("json.format", _T.STRING, [_T.DYN], _format),
        _function("lists.range", _LIST, [_T.INT], _range),
        _function(".slice", _LIST, [_LIST, _T.INT, _T.INT], _slice),
        _function(".distinct", _LIST, [_LIST], _distinct),
        _function(".sort", _LIST, [_LIST], _sort),
        _function(".group", _MAP, [_LIST, _T.STRING], _group),
        _function("merge", _MAP, [_MAP, _MAP], _merge),
        _getter(),
        _function(".callback", _T.STRING, [_T.DYN, _T.STRING], _callback),
        _function("math.sum", _T.DYN, [_LIST], _sum),
        _function("url.encode", _T.STRING, [_T.STRING], _url_encode),
        _function("url.decode", _T.STRING, [_T.STRING], _url_decode),
        _function("hash.sha256", _T.STRING, [_T.STRING], _sha256),
        _function("uuid", _T.STRING, [_T.STRING], _uuid),
    ],
)
"""The functions, for the environment of every expression."""
