"""Reads the text of a definition: JSON, or YAML without YAML's surprises.

Of YAML's plain scalars only `true`, `false`, `null`, `~` and decimal numbers are more than text, as
in YAML 1.2: `on`, `off`, `no` and dates stay text. Keys are always text and never twice. Aliases
work, within a bound on what they unfold to. Nothing of the document's order is lost.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator

import yaml
from perdure_runtime.errors import clean_text

from perdure_machine.definition.problems import Problems
from perdure_machine.expressions.values import Json
from perdure_machine.payload import Path, deeper_than

MAX_BYTES = 1024 * 1024
"""Largest document, in bytes."""

MAX_DEPTH = 64
"""Deepest nesting of a document."""

MAX_EXPRESSIONS = 2_000
"""Most `${...}` in a document; compiling one takes about a millisecond."""

MAX_VALUES = 100_000
"""Most values in a document once its aliases are unfolded."""

_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_EXPONENT = r"[eE][-+]?[0-9]+"
_FRACTION = rf"\.[0-9]+({_EXPONENT})?"
_FLOAT = re.compile(rf"[-+]?((0|[1-9][0-9]*)({_FRACTION}|{_EXPONENT})|{_FRACTION})")
_WORDS: dict[str, Json] = {"": None, "~": None, "null": None, "true": True, "false": False}
_MAX_DIGITS = 4_000


def read_document(document: bytes, problems: Problems) -> Json:
    """Return the document's value; every problem is noted, and then the value is of no use."""
    value = _read(document, problems)
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        problems.add((), "a text holds half of a surrogate pair")
    return value


def _read(document: bytes, problems: Problems) -> Json:
    if len(document) > MAX_BYTES:
        problems.add((), f"it holds {len(document)} bytes; at most {MAX_BYTES} are allowed")
        return None
    if document.count(b"${") > MAX_EXPRESSIONS:
        problems.add((), f"it has more than {MAX_EXPRESSIONS} expressions")
        return None
    try:
        text = document.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problems.add((), f"it is not UTF-8 at byte {error.start}")
        return None
    if text.lstrip().startswith("{") and not deeper_than(document, MAX_DEPTH):
        try:
            return _Json(problems).read(text)
        except ValueError:  # a YAML flow mapping begins like JSON
            problems.found.clear()
    return _read_yaml(text, problems)


class _Json:
    def __init__(self, problems: Problems) -> None:
        self.problems = problems

    def read(self, text: str) -> Json:
        value: Json = json.loads(
            text, object_pairs_hook=self._object, parse_constant=_no_constant, parse_float=_finite
        )
        return value

    def _object(self, pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        members = dict(pairs)
        if len(members) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            self.problems.add((), f"the key '{twice}' stands twice in one object")
        return members


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is beyond what a double holds")
    return number


def _read_yaml(text: str, problems: Problems) -> Json:
    try:
        _check_events(text)
        node = yaml.compose(text, Loader=yaml.CSafeLoader)
        return _Builder(problems).build(node, ()) if node is not None else None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problems.add((), f"it is not YAML: {error.problem or error.context}{where}")
    except (yaml.YAMLError, _Refused) as error:
        problems.add((), clean_text(str(error)))
    return None


class _Refused(Exception):
    """The document is deeper or longer than what is read, or uses what is not read."""


def _check_events(text: str) -> None:
    """Refuse depth before anything recurses over it, and tags, which change what text means."""
    depth = 0
    for event in _events(text):
        tag = getattr(event, "tag", None)
        if tag:
            raise _Refused(f"it uses the tag '{tag}'; tags are not read, quote text instead")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise _Refused(f"it is nested deeper than {MAX_DEPTH} levels")


def _events(text: str) -> Iterator[yaml.Event]:
    yield from yaml.parse(text, Loader=yaml.CSafeLoader)


class _Builder:
    """Turns YAML's nodes into values."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.left = MAX_VALUES

    def build(self, node: yaml.Node, path: Path) -> Json:
        self.left -= 1
        if self.left < 0 or len(path) > MAX_DEPTH:
            raise _Refused(f"its aliases unfold to more than {MAX_VALUES} values, or to themselves")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(str(node.value), getattr(node, "style", None), path)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> Json:
        members: dict[str, Json] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.problems.add(path, "a key is a list or an object; keys are text")
                continue
            if key.value in members:
                self.problems.add((*path, key.value), "this key stands twice")
            members[key.value] = self.build(value, (*path, key.value))
        return members

    def _scalar(self, text: str, style: str | None, path: Path) -> Json:
        is_quoted = bool(style)
        if is_quoted:
            return text
        if text in _WORDS:
            return _WORDS[text]
        if _INT.fullmatch(text) and len(text) <= _MAX_DIGITS:
            return int(text)
        if _FLOAT.fullmatch(text):
            return self._number(text, path)
        return text

    def _number(self, text: str, path: Path) -> Json:
        try:
            return _finite(text)
        except ValueError as error:
            self.problems.add(path, str(error), "quote it to keep it as text")
            return None
