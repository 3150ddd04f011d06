"""A document becomes a `Definition`, or all its problems at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType

from perdure_machine.definition.compiling import template_at
from perdure_machine.definition.document import read_document
from perdure_machine.definition.draft import Draft, Drafter
from perdure_machine.definition.edges import check_picks, edges, rescuers_of
from perdure_machine.definition.graph import Needs, check_graph, dependents_of
from perdure_machine.definition.inputs import check_input_schema
from perdure_machine.definition.later import without_later
from perdure_machine.definition.model import (
    DEFAULT_MAX_STEPS,
    Definition,
    JoinKind,
    Limits,
    Node,
    OnError,
)
from perdure_machine.definition.prefetch import Prefetches
from perdure_machine.definition.problems import Problems
from perdure_machine.definition.reading import check_known, check_reads, check_roots
from perdure_machine.definition.schema import check_schema
from perdure_machine.expressions import Read, Template, compile_template
from perdure_machine.expressions.durations import parse_duration
from perdure_machine.expressions.values import Json
from perdure_machine.payload import Path

_NEED_ALL_WELL = (JoinKind.ALL, JoinKind.STRICT)


def parse(document: bytes, *, known_lanes: frozenset[str]) -> Definition:
    """Check a YAML or JSON document and return what it means.

    `known_lanes` are the lanes that operators have made. Raises `DefinitionInvalid` with every
    problem; doubts that do not refuse the document are the definition's `warnings`.
    """
    problems = Problems()
    value = read_document(document, problems)
    problems.refuse()
    if not isinstance(value, dict):
        problems.add((), "it is not an object with `name` and `nodes`")
        value = {}
    problems.refuse()
    members = without_later(value, problems)
    check_schema(members, problems)
    return _definition(members, value.get("nodes"), problems, known_lanes)


def canonical(document: bytes) -> bytes:
    """Return the document's content in one form, whatever its layout and key order, for its digest.

    Raises `DefinitionInvalid` if it cannot be read.
    """
    problems = Problems()
    value = read_document(document, problems)
    problems.refuse()
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _definition(
    members: Mapping[str, Json], nodes: Json, problems: Problems, known_lanes: frozenset[str]
) -> Definition:
    """Compile what fits, note what is wrong in the rest, and build once nothing is."""
    needs = edges(members.get("nodes"), problems)
    drafts = _drafts(members.get("nodes"), nodes, needs, problems, known_lanes)
    order = check_graph(needs, problems)
    check_picks(members.get("nodes"), problems)
    check_reads(drafts, needs, order, problems)
    output_reads: list[tuple[Path, Read]] = []
    output = None
    if "output" in members:
        output = template_at(members["output"], ("output",), problems, output_reads)
        check_known(output_reads, needs, problems)
        check_roots(output_reads, frozenset(), problems)
    check_input_schema(members.get("input"), problems)
    limits = _limits(members.get("limits"), problems)
    problems.refuse()
    return _built(members, drafts, order or (), output, limits, problems)


def _drafts(
    nodes: Json,
    as_written: Json,
    needs: Needs,
    problems: Problems,
    known_lanes: frozenset[str],
) -> dict[str, Draft]:
    drafts: dict[str, Draft] = {}
    for id_, node in nodes.items() if isinstance(nodes, dict) else ():
        written = as_written.get(id_) if isinstance(as_written, dict) else None
        if not isinstance(node, dict) or not isinstance(written, dict):
            continue
        drafter = Drafter(("nodes", id_), problems, known_lanes, needs[id_])
        draft = drafter.draft(node, written)
        if draft is not None:
            drafts[id_] = draft
    return drafts


def _limits(limits: Json, problems: Problems) -> Limits:
    members = limits if isinstance(limits, dict) else {}
    steps, age = members.get("steps"), members.get("age")
    seconds = None
    if isinstance(age, str | int | float):
        try:
            seconds = parse_duration(age)
        except ValueError as error:
            problems.add_unless_noted(("limits", "age"), str(error))
    return Limits(steps if isinstance(steps, int) else DEFAULT_MAX_STEPS, seconds)


def _built(
    members: Mapping[str, Json],
    drafts: Mapping[str, Draft],
    order: tuple[str, ...],
    output: Template | None,
    limits: Limits,
    problems: Problems,
) -> Definition:
    dependents = dependents_of({id_: draft.needs for id_, draft in drafts.items()})
    rescuers = rescuers_of(members.get("nodes"))
    survived = _survived(drafts, dependents, order)
    leaves = [id_ for id_ in drafts if not dependents[id_]]
    leaf_output = compile_template({id_: f'${{nodes["{id_}"].output}}' for id_ in leaves})
    prefetches = Prefetches(drafts, dependents, rescuers, order, (output or leaf_output).reads)
    schema = members.get("input")
    return Definition(
        name=str(members["name"]),
        nodes=MappingProxyType(
            {
                id_: Node(
                    id=id_,
                    kind=draft.kind,
                    needs=draft.needs,
                    dependents=dependents[id_],
                    rescuers=rescuers[id_],
                    survivors=id_ in survived,
                    join=draft.join,
                    when=draft.when,
                    result=draft.result,
                    retry=draft.retry,
                    timeout=draft.timeout,
                    lane=draft.lane,
                    priority=draft.priority,
                    on_failure=draft.on_failure,
                    prefetch=prefetches.after(id_),
                )
                for id_, draft in drafts.items()
            }
        ),
        input_schema=None if schema is None else json.dumps(schema).encode(),
        output=output,
        limits=limits,
        on_error=OnError(str(members.get("on_error", OnError.STOP))),
        roots=tuple(id_ for id_, draft in drafts.items() if not draft.needs),
        leaf_output=leaf_output,
        start_prefetch=prefetches.at_start(),
        warnings=tuple(problems.warnings),
    )


def _survived(
    drafts: Mapping[str, Draft], dependents: Needs, order: tuple[str, ...]
) -> frozenset[str]:
    """Return the nodes from which one descends that may run although what it needs failed."""
    found: set[str] = set()
    for id_ in reversed(order):
        for other in dependents[id_]:
            if other in found or drafts[other].join.kind not in _NEED_ALL_WELL:
                found.add(id_)
    return frozenset(found)
