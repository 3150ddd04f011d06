"""Turns one node of a document that fits the schema into its compiled parts, noting problems."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass

from perdure_machine.definition import blocks, children, flow, signalling
from perdure_machine.definition.about import check_about, check_spent
from perdure_machine.definition.compiling import NodeCompiler, mapping, texts
from perdure_machine.definition.effects import REPEATABLE_METHODS, effect, effect_key
from perdure_machine.definition.later import is_later_kind
from perdure_machine.definition.lookups import grpc_lookup, http_lookup
from perdure_machine.definition.model import (
    CONNECTION_NAME,
    DEFAULT_LANE,
    IO_RETRY,
    LANE_RETRY,
    Handler,
    Join,
    Kind,
    RetryRule,
    Task,
    Transform,
    Wait,
)
from perdure_machine.definition.outside import EffectKind, Grpc, Http
from perdure_machine.definition.problems import Problems
from perdure_machine.definition.sources import Source
from perdure_machine.expressions import Expression, Read, Template
from perdure_machine.expressions.reads import INPUT
from perdure_machine.expressions.values import Json
from perdure_machine.payload import Path

KINDS = (
    "task",
    "http",
    "grpc",
    "wait",
    "transform",
    "switch",
    "fail",
    "finish",
    "signal",
    "emit",
    *blocks.KINDS,
    "run",
    "cancel_run",
)
_READ_LATER = ("result", "spent", "on_failure")
_WHOLES = (*blocks.KINDS, "run")
_TRIED_AGAIN = ("task", "http", "grpc", *_WHOLES)
_ONLY_ON_LANES = ("retry", "timeout", "lane", "priority", "connection")
_NOT_OF: Mapping[str, tuple[str, ...]] = {
    "task": (),
    "http": (),
    "grpc": (),
    **dict.fromkeys(_WHOLES, ("lane", "priority", "connection")),
}
_HANDLER = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/-]{0,199}")


@dataclass(frozen=True, slots=True)
class Draft:
    """A node without its place in the graph, at `path` in the document.

    `reads` has every read with the place it stands at; `inner_reads` those that are evaluated in
    the node's own scopes, whose output is `graph_output`.
    """

    path: Path
    kind: Kind
    needs: tuple[str, ...]
    join: Join
    when: Expression | None
    result: Template | None
    retry: tuple[RetryRule, ...]
    timeout: float | None
    deadline: Template | None
    publish: str | None
    lane: str
    priority: int
    connection: str | Template | None
    on_failure: tuple[Handler, ...]
    reads: tuple[tuple[Path, Read], ...]
    inner_reads: tuple[tuple[Path, Read], ...]
    graph_output: Template | None
    subject: Template | None
    purpose: str
    cost: Template | None
    effect_key: Template | None
    spent: Template | None

    def part(self, path: Path) -> str:
        """Return the member of the node that something at `path` stands in."""
        return str(path[len(self.path)])

    def reads_at_start(self) -> Iterator[Read]:
        """Yield what is read to begin the node; inline nodes end with it and read their result."""
        for path, read in self.reads:
            part = self.part(path)
            if part not in _READ_LATER or (part == "result" and self.kind.inline):
                yield read
        if isinstance(self.kind, Task) and self.kind.input is None:
            yield Read(INPUT, None, None, ())


class Drafter(NodeCompiler):
    """Compiles one node of the graph `source`; `needs` are its edges."""

    def __init__(
        self,
        source: Source,
        id_: str,
        problems: Problems,
        known_lanes: frozenset[str],
        needs: tuple[str, ...],
    ) -> None:
        super().__init__((*source.path, id_), problems, source.names)
        self.known_lanes = known_lanes
        self.needs = needs

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
        inside = self._inside(kinds[0], node[kinds[0]])
        kind = self._kind(kinds[0], node[kinds[0]], inside)
        signalling.check_deadline(self, kind, node)
        check_about(self, kinds[0], node)
        check_spent(self, node)
        graph_output = None
        if kinds[0] in blocks.KINDS:
            graph_output = blocks.graph_output(inside, kinds[0], mapping(node[kinds[0]]))
        lane = self._lane(node, kinds[0])
        return Draft(
            path=self.path,
            kind=kind,
            needs=self.needs,
            join=flow.join(self, node, len(self.needs)),
            when=self.condition(node, "when"),
            result=self.template(node["result"], "result") if "result" in node else None,
            retry=self._retry(node.get("retry"), lane) if kinds[0] in _TRIED_AGAIN else (),
            timeout=self.seconds(node, "timeout"),
            deadline=self._deadline(node, kind),
            publish=str(node["publish"]) if "publish" in node else None,
            lane=lane,
            priority=_integer(node.get("priority"), 0),
            connection=self._connection(node),
            on_failure=flow.handlers(self, node.get("on_failure"), picks="switch" in node),
            reads=tuple(self.reads),
            inner_reads=tuple(inside.reads),
            graph_output=graph_output,
            subject=self.optional(node, "subject"),
            purpose=str(node.get("purpose", "")),
            cost=self.optional(node, "cost"),
            effect_key=effect_key(self, kind, node),
            spent=self.optional(node, "spent"),
        )

    def undo(self, node: Mapping[str, Json]) -> Draft | None:
        """Return the draft of what compensates the node, None where nothing does."""
        if "compensate" not in node:
            return None
        if not any(kind in node for kind in _TRIED_AGAIN):
            reason = "only work and what holds or starts some can be compensated"
            self.problems.add((*self.path, "compensate"), reason)
        body = {key: value for key, value in mapping(node["compensate"]).items() if key != "when"}
        undoing = copy(self)
        undoing.path, undoing.reads, undoing.needs = (*self.path, "compensate"), [], ()
        return undoing.draft(body, body)

    def _inside(self, kind: str, body: Json) -> NodeCompiler:
        """Return what compiles the expressions that are evaluated in the node's own scopes."""
        alias = blocks.alias_of(kind, body)
        names = self.names | {alias} if blocks.is_alias(alias) else self.names
        return NodeCompiler(self.path, self.problems, names)

    def _kind(self, name: str, body: Json, inside: NodeCompiler) -> Kind:
        if name in blocks.KINDS:
            return blocks.block(self, inside, name, mapping(body))
        if name == "transform":
            return Transform(self.template(body, name))
        if name == "wait":
            return Wait(self._wait(body))
        members = mapping(body)
        match name:
            case "switch":
                return flow.switch(self, members)
            case "fail":
                return flow.fail(self, members, name)
            case "finish":
                return flow.finish(self, members)
            case "signal":
                return signalling.signal(self, members)
            case "emit":
                return signalling.emit(self, members)
            case "task":
                return self._task(members)
            case "grpc":
                return self._grpc(members)
            case "run":
                return children.child_run(self, members)
            case "cancel_run":
                return children.cancel_run(self, members)
            case _:
                return self._http(members)

    def _task(self, body: Mapping[str, Json]) -> Task:
        handler = str(body.get("handler", ""))
        choice = self.template(handler, "task", "handler")
        choices = texts(body.get("one_of"))
        is_chosen = choice.constant is None
        path = (*self.path, "task")
        if is_chosen and not choices:
            reason = "a handler that is chosen is one of a list"
            self.problems.add((*path, "handler"), reason, "add `one_of`")
        if choices and not is_chosen:
            self.problems.add((*path, "one_of"), "there is nothing to choose", "remove it")
        if not is_chosen:
            self._check_handler((*path, "handler"), handler)
        for index, name in enumerate(choices):
            self._check_handler((*path, "one_of", index), name)
        payload = self.optional(body, "task", "input")
        if not is_chosen:
            return Task(handler, payload)
        return Task("", payload, choice, frozenset(choices))

    def _check_handler(self, path: Path, name: str) -> None:
        if name and not _HANDLER.fullmatch(name):
            hint = "letters, digits and . _ : / - after a first letter, as in crm.lookup"
            self.problems.add(path, "not a handler's name", hint)

    def _http(self, body: Mapping[str, Json]) -> Http:
        method = str(body.get("method", "GET"))
        declared = effect(self, "http", body.get("effect"), method)
        return Http(
            method=method,
            url=self.template(body.get("url"), "http", "url"),
            headers=self.templates(body.get("headers"), "http", "headers"),
            query=self.templates(body.get("query"), "http", "query"),
            body=self.optional(body, "http", "body"),
            effect=declared.kind,
            effect_keep=declared.keep,
            success=frozenset(_integers(body.get("success"))),
            timeouts=self._timeouts(body),
            redirects=self._redirects(body.get("redirects"), method, declared.kind),
            lookup=http_lookup(self, body),
        )

    def _grpc(self, body: Mapping[str, Json]) -> Grpc:
        declared = effect(self, "grpc", body.get("effect"))
        return Grpc(
            target=self.template(body.get("target"), "grpc", "target"),
            service=str(body.get("service", "")),
            method=str(body.get("method", "")),
            request=self.optional(body, "grpc", "request"),
            metadata=self.templates(body.get("metadata"), "grpc", "metadata"),
            plaintext=body.get("plaintext") is True,
            effect=declared.kind,
            effect_keep=declared.keep,
            lookup=grpc_lookup(self, body),
        )

    def _timeouts(self, body: Mapping[str, Json]) -> Mapping[str, float]:
        given = mapping(body.get("timeouts"))
        found = {name: self.seconds(given, "http", "timeouts", name) for name in given}
        return {name: seconds for name, seconds in found.items() if seconds is not None}

    def _redirects(self, most: Json, method: str, effect: EffectKind) -> int | None:
        if not isinstance(most, int):
            return None
        if method not in REPEATABLE_METHODS or effect is not EffectKind.REPEATABLE:
            path = (*self.path, "http", "redirects")
            self.problems.add(path, "a call that has an effect follows none", "remove it")
        return most

    def _wait(self, body: Json) -> Template:
        where: Path = ("wait", "duration") if isinstance(body, dict) else ("wait",)
        value = body.get("duration") if isinstance(body, dict) else body
        return self.lasting(value, *where)

    def _deadline(self, node: Mapping[str, Json], kind: Kind) -> Template | None:
        if "deadline" not in node:
            return None
        if kind.inline:
            path = (*self.path, "deadline")
            self.problems.add(path, "this kind of node ends at once", "remove it")
        return self.lasting(node["deadline"], "deadline")

    def _lane(self, node: Mapping[str, Json], kind: str) -> str:
        for key in _NOT_OF.get(kind, _ONLY_ON_LANES):
            if key in node:
                reason = "this kind of node uses no lane"
                if kind not in _TRIED_AGAIN:
                    reason += " and is tried once"
                self.problems.add((*self.path, key), reason, "remove it")
        lane = str(node.get("lane", DEFAULT_LANE))
        if lane not in self.known_lanes:
            known = ", ".join(sorted(self.known_lanes))
            self.problems.add((*self.path, "lane"), f"there is no lane '{lane}'", f"known: {known}")
        return lane

    def _connection(self, node: Mapping[str, Json]) -> str | Template | None:
        named = node.get("connection")
        if not isinstance(named, str):
            return None
        if "${" in named:
            return self.template(named, "connection")
        if not re.fullmatch(CONNECTION_NAME, named):
            hint = "a small letter, then small letters, digits and . _ -"
            self.problems.add((*self.path, "connection"), "not the name of a connection", hint)
        return named

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
        base = self.seconds(rule, "retry", *index, "base")
        cap = self.seconds(rule, "retry", *index, "cap")
        factor = rule.get("factor")
        return RetryRule(
            on=frozenset(texts(rule.get("on"))),
            max=_integer(rule.get("max"), default.max),
            base=default.base if base is None else base,
            factor=float(factor) if isinstance(factor, int | float) else default.factor,
            cap=default.cap if cap is None else cap,
        )


def _kinds() -> str:
    return ", ".join(KINDS)


def _integers(value: Json) -> list[int]:
    return [item for item in value if isinstance(item, int)] if isinstance(value, list) else []


def _integer(value: Json, default: int) -> int:
    return value if isinstance(value, int) else default
