"""Turns one node of a document that fits the schema into its compiled parts, noting problems."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from perdure_machine.definition.later import is_later_kind
from perdure_machine.definition.model import (
    DEFAULT_LANE,
    IO_RETRY,
    LANE_RETRY,
    EffectKind,
    Http,
    Kind,
    RetryRule,
    Task,
    Transform,
    Wait,
)
from perdure_machine.definition.problems import Problems
from perdure_machine.expressions import (
    Expression,
    ExpressionInvalid,
    Read,
    Template,
    compile_expression,
    parse_template,
)
from perdure_machine.expressions.durations import parse_duration
from perdure_machine.expressions.reads import INPUT
from perdure_machine.expressions.values import Json
from perdure_machine.payload import Path

DECLARED_EFFECTS = (EffectKind.PROVIDER, EffectKind.NONE)
KINDS = ("task", "http", "wait", "transform")
_ONLY_ON_LANES = ("retry", "timeout", "lane", "priority")
_HANDLER = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/-]{0,199}")
_REPEATABLE = ("GET", "HEAD")
_BOOL_TEXT = ("true", "false")


@dataclass(frozen=True, slots=True)
class Draft:
    """A node without its place in the graph; `reads` has every read with the place it stands at."""

    kind: Kind
    needs: tuple[str, ...]
    when: Expression | None
    result: Template | None
    retry: tuple[RetryRule, ...]
    timeout: float | None
    lane: str
    priority: int
    reads: tuple[tuple[Path, Read], ...]

    def reads_at_start(self) -> Iterator[Read]:
        """Yield what is read to begin the node; inline nodes end with it and read their result."""
        for path, read in self.reads:
            if self.kind.inline or path[2:3] != ("result",):
                yield read
        if isinstance(self.kind, Task) and self.kind.input is None:
            yield Read(INPUT, None, None, ())


class Drafter:
    """Compiles one node; the places of its problems begin with `path`."""

    def __init__(self, path: Path, problems: Problems, known_lanes: frozenset[str]) -> None:
        self.path = path
        self.problems = problems
        self.known_lanes = known_lanes
        self.reads: list[tuple[Path, Read]] = []

    def draft(self, node: Mapping[str, Json], written: Mapping[str, Json]) -> Draft | None:
        """Return the node's draft, or None if its kind cannot be told.

        `node` lacks the constructs of later versions that were `written`.
        """
        kinds = [kind for kind in KINDS if kind in node]
        if not kinds and is_later_kind(written):
            return None
        if len(kinds) != 1:
            found = " and ".join(kinds) or "none"
            self.problems.add(
                self.path, f"a node has exactly one kind; this has {found}", "one of " + _kinds()
            )
            return None
        kind = self._kind(kinds[0], node[kinds[0]])
        lane = self._lane(node, on_lane=kinds[0] in ("task", "http"))
        return Draft(
            kind=kind,
            needs=tuple(texts(node.get("needs"))),
            when=self._when(node),
            result=self._template(node["result"], "result") if "result" in node else None,
            retry=self._retry(node.get("retry"), lane) if kinds[0] in ("task", "http") else (),
            timeout=self._seconds(node, "timeout"),
            lane=lane,
            priority=_integer(node.get("priority"), 0),
            reads=tuple(self.reads),
        )

    def _kind(self, name: str, body: Json) -> Kind:
        if name == "transform":
            return Transform(self._template(body, name))
        if name == "wait":
            return Wait(self._wait(body))
        members = body if isinstance(body, dict) else {}
        return self._task(members) if name == "task" else self._http(members)

    def _task(self, body: Mapping[str, Json]) -> Task:
        handler = body.get("handler", "")
        if isinstance(handler, str) and handler and not _HANDLER.fullmatch(handler):
            hint = "letters, digits and . _ : / - after a first letter, as in crm.lookup"
            self.problems.add((*self.path, "task", "handler"), "not a handler's name", hint)
        return Task(str(handler), self._optional(body, "task", "input"))

    def _http(self, body: Mapping[str, Json]) -> Http:
        method = str(body.get("method", "GET"))
        kind, keep = self._effect(body.get("effect"), method)
        return Http(
            method=method,
            url=self._template(body.get("url"), "http", "url"),
            headers=self._templates(body.get("headers"), "http", "headers"),
            query=self._templates(body.get("query"), "http", "query"),
            body=self._optional(body, "http", "body"),
            effect=kind,
            effect_keep=keep,
            success=frozenset(_integers(body.get("success"))),
        )

    def _effect(self, effect: Json, method: str) -> tuple[EffectKind, float | None]:
        declared = effect.get("kind") if isinstance(effect, dict) else effect
        if isinstance(declared, str) and declared in DECLARED_EFFECTS:
            keep = (
                self._seconds(effect, "keep", "http", "effect")
                if isinstance(effect, dict)
                else None
            )
            return EffectKind(declared), keep
        return EffectKind.REPEATABLE if method in _REPEATABLE else EffectKind.NONE, None

    def _wait(self, body: Json) -> Template:
        where: Path = ("wait", "duration") if isinstance(body, dict) else ("wait",)
        value = body.get("duration") if isinstance(body, dict) else body
        template = self._template(value, *where)
        if template.constant is not None and isinstance(value, str | int | float):
            self._duration(value, where)
        return template

    def _lane(self, node: Mapping[str, Json], *, on_lane: bool) -> str:
        if not on_lane:
            for key in _ONLY_ON_LANES:
                if key in node:
                    reason = "this kind of node uses no lane and is tried once"
                    self.problems.add((*self.path, key), reason, "remove it")
        lane = str(node.get("lane", DEFAULT_LANE))
        if lane not in self.known_lanes:
            known = ", ".join(sorted(self.known_lanes))
            self.problems.add((*self.path, "lane"), f"there is no lane '{lane}'", f"known: {known}")
        return lane

    def _when(self, node: Mapping[str, Json]) -> Expression | None:
        source = node.get("when")
        if source is None:
            return None
        text = str(source).lower() if isinstance(source, bool) else str(source)
        path = (*self.path, "when")
        if text.lstrip().startswith("${"):
            self.problems.add(path, "a condition is bare CEL", "write it without ${ }")
            return None
        try:
            condition = compile_expression(text)
        except ExpressionInvalid as problem:
            self.problems.add(path, problem.message, problem.hint)
            return None
        self.reads += [(path, read) for read in condition.reads]
        return condition

    def _retry(self, rules: Json, lane: str) -> tuple[RetryRule, ...]:
        default = LANE_RETRY.get(lane, IO_RETRY)
        if isinstance(rules, dict):
            return (self._rule(rules, default),)
        listed = rules if isinstance(rules, list) else []
        return tuple(
            self._rule(rule, default, index)
            for index, rule in enumerate(listed)
            if isinstance(rule, dict)
        )

    def _rule(self, rule: dict[str, Json], default: RetryRule, *index: int) -> RetryRule:
        base = self._seconds(rule, "base", "retry", *index)
        cap = self._seconds(rule, "cap", "retry", *index)
        factor = rule.get("factor")
        return RetryRule(
            on=frozenset(texts(rule.get("on"))),
            max=_integer(rule.get("max"), default.max),
            base=default.base if base is None else base,
            factor=float(factor) if isinstance(factor, int | float) else default.factor,
            cap=default.cap if cap is None else cap,
        )

    def _seconds(self, holder: Mapping[str, Json], key: str, *where: str | int) -> float | None:
        value = holder.get(key)
        return (
            self._duration(value, (*where, key)) if isinstance(value, str | int | float) else None
        )

    def _duration(self, value: str | float, where: Path) -> float | None:
        try:
            return parse_duration(value)
        except ValueError as error:
            self.problems.add_unless_noted((*self.path, *where), str(error))
            return None

    def _optional(self, holder: Mapping[str, Json], *where: str) -> Template | None:
        return self._template(holder[where[-1]], *where) if where[-1] in holder else None

    def _templates(self, values: Json, *where: str) -> dict[str, Template]:
        named = values if isinstance(values, dict) else {}
        return {name: self._template(value, *where, name) for name, value in named.items()}

    def _template(self, value: Json, *where: str | int) -> Template:
        return template_at(value, (*self.path, *where), self.problems, self.reads)


def template_at(
    value: Json, path: Path, problems: Problems, reads: list[tuple[Path, Read]]
) -> Template:
    """Compile the template that stands at `path`, and add what it reads to `reads`."""

    def report(below: Path, problem: ExpressionInvalid) -> None:
        problems.add((*path, *below), problem.message, problem.hint)

    template = parse_template(value, report)
    reads += [(path, read) for read in template.reads]
    _warn_of_bool_text(value, path, problems)
    return template


def _warn_of_bool_text(value: Json, path: Path, problems: Problems) -> None:
    if isinstance(value, dict):
        for key, member in value.items():
            _warn_of_bool_text(member, (*path, key), problems)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _warn_of_bool_text(item, (*path, index), problems)
    elif isinstance(value, str) and value.lower() in _BOOL_TEXT:
        problems.warn(path, f"'{value}' is text, not a truth value", "write it without quotes")


def _kinds() -> str:
    return ", ".join(KINDS)


def texts(value: Json) -> list[str]:
    """Return the items of a list as text; of anything else, none."""
    return [str(item) for item in value] if isinstance(value, list) else []


def _integers(value: Json) -> list[int]:
    return [item for item in value if isinstance(item, int)] if isinstance(value, list) else []


def _integer(value: Json, default: int) -> int:
    return value if isinstance(value, int) else default
