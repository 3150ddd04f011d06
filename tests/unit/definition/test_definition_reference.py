"""The reference page is what the schema says, and each example in it is a definition that runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from perdure_machine.definition import parse
from perdure_machine.definition.reference import page
from perdure_machine.definition.schema import schema_text
from perdure_machine.events import Succeeded
from perdure_machine.states import RunStatus
from perdure_testkit.engines.driver import Driver
from perdure_testkit.engines.memory import MemoryPort
from perdure_testkit.engines.playing import Answer, Player
from perdure_testkit.engines.port import Bears, StartOf

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "definition.md"
SCHEMA: dict[str, Any] = json.loads(schema_text())
LANES = frozenset({"io", "slow"})
BEFORE = {id_: {"task": {"handler": "h"}} for id_ in ("lookup", "enrich", "draft")}
AFTER = {id_: {"task": {"handler": "h"}} for id_ in ("call", "mail", "drop", "tell")}
BLOCKS = ("for_each", "repeat", "group")
KINDS = (
    "task", "http", "grpc", "wait", "transform", "switch", "fail", "finish", "signal", "emit",
    *BLOCKS, "run", "cancel_run",
)  # fmt: skip
INSIDE = {id_: {"task": {"handler": "h"}} for id_ in ("charge", "look", "page", "load")}
LEFT = {"left": {"init": 2, "next": "${carry.left - 1}"}}
OTHER_RUN = "01234567-89ab-7def-8123-456789abcdef"
LEAST: dict[str, dict[str, Any]] = {
    "task": {"handler": "h"},
    "http": {"url": "u"},
    "grpc": {"target": "h:1", "service": "s", "method": "M"},
    "switch": {"cases": [{"when": "true", "then": ["call"]}]},
    "fail": {"code": "c"},
    "finish": {},
    "signal": {"name": "n"},
    "emit": {"name": "n", "key": "k"},
    "for_each": {"in": "${input.l}", "nodes": INSIDE},
    "repeat": {"until": "true", "carry": LEFT, "nodes": INSIDE},
    "group": {"nodes": INSIDE},
    "run": {"workflow": "other"},
    "cancel_run": {"run": OTHER_RUN},
}
BESIDE: dict[str, dict[str, Any]] = {
    "cancel_rest": {"join": "any"},
    "purpose": {"subject": "${input.email}"},
}
ON: dict[str, dict[str, Any]] = {
    "effect_key": {"http": {"url": "u", "method": "POST"}},
    "spent": {"http": {"url": "u", "method": "POST"}, "cost": 1},
}
EFFECTS: dict[str, tuple[str, dict[str, Any]]] = {
    "http_effect": ("http", {"url": "l"}),
    "grpc_effect": ("grpc", {"method": "Find"}),
}
"""Each with the kind of node that it stands in, and its least look-up."""
PLACES = (
    "exclusive",
    "node",
    *LEAST,
    *EFFECTS,
    "http_lookup",
    "grpc_lookup",
    "case",
    "handler",
    "retry_rule",
)


def document(node: dict[str, Any], **members: Any) -> dict[str, Any]:
    node = {"needs": list(BEFORE), **node}
    return {"name": "w", "nodes": {**BEFORE, **AFTER, "this": node}, **members}


def examples() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each example of the schema inside the least document that holds it."""
    yield "whole", SCHEMA["examples"][0]
    definitions = SCHEMA["$defs"]
    for name, value in each(SCHEMA["properties"]):
        yield name, document({"wait": 1}, **{name: value})
    for name, value in each(definitions["node"]["properties"]):
        work = ON.get(name, {"task": {"handler": "h"}})
        yield f"node.{name}", document({**work, **BESIDE.get(name, {}), name: value})
    for kind in KINDS:
        for value in definitions[kind]["examples"]:
            yield kind, document({kind: value})
    for kind, least in LEAST.items():
        for name, value in each(definitions[kind]["properties"]):
            body = {**least, name: value}
            if name == "one_of":
                body["handler"] = "${input.by}.send"
            yield f"{kind}.{name}", document({kind: one_of_two(body)})
    for place, (kind, least) in EFFECTS.items():
        for name, effect in effects(definitions, place, least):
            yield name, document({kind: {**LEAST[kind], "effect": effect}})
    for name, value in each(definitions["retry_rule"]["properties"]):
        yield f"retry.{name}", document({"task": {"handler": "h"}, "retry": {name: value}})
    for name, value in each(definitions["exclusive"]["properties"]):
        exclusive = {"key": "k", name: value}
        yield f"exclusive.{name}", document({"wait": 1}, exclusive=exclusive)
    for value in definitions["join"]["examples"]:
        yield "join", document({"task": {"handler": "h"}, "join": value})
    for name, value in each(definitions["case"]["properties"]):
        case = {"when": "true", "then": ["call"], name: value}
        yield f"case.{name}", document({"switch": {"cases": [case]}})
    for name, value in each(definitions["handler"]["properties"]):
        handler = {"output": 1, name: value} if name == "when" else {name: value}
        yield f"handler.{name}", document({"task": {"handler": "h"}, "on_failure": [handler]})


def effects(
    definitions: dict[str, Any], place: str, least: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    for value in definitions[place]["examples"]:
        yield place, value
    for name, value in each(definitions[place]["properties"]):
        yield f"{place}.{name}", {"kind": "provider", name: value}
    lookup = place.replace("effect", "lookup")
    for value in definitions[lookup]["examples"]:
        yield lookup, {"kind": "reconcile", "lookup": value}
    for name, value in each(definitions[lookup]["properties"]):
        yield f"{lookup}.{name}", {"kind": "reconcile", "lookup": {**least, name: value}}


def one_of_two(body: dict[str, Any]) -> dict[str, Any]:
    """Leave out what cannot stand beside another member."""
    others = {"while": "until", "run": "key", "source": "in"}
    left_out = {left for member, left in others.items() if member in body}
    return {name: value for name, value in body.items() if name not in left_out}


def each(properties: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, member in properties.items():
        for value in member.get("examples", ()):
            yield name, value


EXAMPLES = list(examples())


@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_every_construct_has_an_example_that_parses(name: str, example: dict[str, Any]) -> None:
    assert parse(json.dumps(example).encode(), known_lanes=LANES).warnings == ()


GIVEN: dict[str, Any] = {
    "email": "a@x.example",
    "first": "A",
    "last": "B",
    "delay": "1s",
    "item": "tea",
    "url": "https://x.example",
    "id": "7",
    "language": "en",
    "urgent": True,
    "by": "sms",
    "votes": 2,
    "patience": "1h",
    "amount": 3,
    "run": "01890a5d-ac96-774b-bcce-b302099a8057",
    "account": "acme",
    "cents": 1990,
    "mailbox": "mailbox-of-ann",
    "l": [1, 2],
    "orders": [{"id": 1}, {"id": 2}],
    "rows": [1, 2, 3],
    "pages": 2,
    "speed": 3,
    "order": 7,
    "region": "eu",
    "version": 2,
    "report": OTHER_RUN,
    "reference": "r7",
}
CALLED = ("invoice", "eu-report", "other")
ANSWER = {
    "id": 7,
    "score": 60,
    "tags": ["a"],
    "status": 200,
    "headers": {},
    "body": {"id": 8},
    "found": True,
    "state": "ready",
    "done": True,
    "items": [1],
    "next": None,
}
SENT = ("reply", "go", "n")
"""Signals of these names come before any example waits for one."""
FAILS = frozenset({"fail", "fail.code", "fail.message", "fail.output"})


@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
async def test_every_example_runs_to_its_end(name: str, example: dict[str, Any]) -> None:
    driver = Driver(MemoryPort())
    await driver.engine.publish(driver.org, json.dumps(example).encode())
    for called, version in product(CALLED, (1, 2)):
        nodes = {"one": {"transform": version}}
        await driver.engine.publish(
            driver.org, json.dumps({"name": called, "nodes": nodes}).encode()
        )
    for connection in ("crm", "mailbox-of-ann"):
        await driver.engine.put_connection(driver.org, connection, Bears())
    start = StartOf(example["name"], json.dumps(GIVEN).encode())
    run_id = (await driver.engine.start(driver.org, start)).run_id
    for signal in SENT if "signal" in example["nodes"].get("this", {}) else ():
        await driver.send(run_id, signal, b'{"kind": "letter"}')
    run = await Player(driver, lambda _: answered).play(run_id)
    assert run.status == (RunStatus.FAILED if name in FAILS else RunStatus.COMPLETED), run.error
    assert await driver.engine.no_way_forward() == []


def answered(_given: bytes, _number: int) -> Answer:
    return Succeeded(json.dumps(ANSWER).encode())


def test_no_construct_lacks_an_example_or_a_description() -> None:
    for place in ("", *PLACES):
        kinds = KINDS if place == "node" else ()
        described = SCHEMA["$defs"][place] if place else SCHEMA
        for name, member in described["properties"].items():
            assert name in (*kinds, "nodes") or member["examples"], name
            assert name in kinds or member["description"], name


def test_the_yaml_on_the_page_is_read_as_the_schema_has_it() -> None:
    whole = re.search(r"```yaml\n(.*?)```", page(), re.DOTALL)
    assert whole is not None
    written = parse(whole[1].encode(), known_lanes=LANES)
    assert written == parse(json.dumps(SCHEMA["examples"][0]).encode(), known_lanes=LANES)


def test_the_page_is_up_to_date() -> None:
    hint = "run: python -m perdure_machine.definition.reference > docs/reference/definition.md"
    assert PAGE.read_text() == page(), hint
