"""What a definition means: its nodes, defaults, and every problem at once."""

from __future__ import annotations

import pytest
from perdure_machine.definition import (
    Definition,
    DefinitionInvalid,
    EffectKind,
    Http,
    Limits,
    Problem,
    RetryRule,
    Task,
    Transform,
    Wait,
    parse,
)
from perdure_machine.expressions import Template
from perdure_runtime.errors import Reason

LANES = frozenset({"io", "slow"})


def read(document: str) -> Definition:
    return parse(document.encode(), known_lanes=LANES)


def nodes(text: str) -> Definition:
    return read(f"name: w\nnodes:\n{text}")


def problems(document: str) -> dict[str, list[str]]:
    with pytest.raises(DefinitionInvalid) as caught:
        read(document)
    found: dict[str, list[str]] = {}
    for problem in caught.value.problems:
        found.setdefault(problem.path, []).append(problem.reason)
    return found


def test_a_whole_document() -> None:
    definition = read("""
name: order
limits: {steps: 50, age: 30d}
on_error: stop
nodes:
  look:
    task: {handler: crm.lookup, input: {id: "${input.id}"}}
    lane: slow
    priority: 5
    timeout: 90s
  shape: {needs: [look], transform: "${nodes.look.output.name}", result: null}
  pause: {needs: [look], wait: 10s}
  send:
    needs: [shape, pause]
    when: nodes.look.output.ok
    http:
      method: POST
      url: https://mail.example/${input.id}
      headers: {X-Run: "${run.id}"}
      query: {n: 1}
      body: {to: "${nodes.look.output.mail}"}
      effect: {kind: provider, keep: 24h}
      success: [200, 202]
output: {sent: "${nodes.send.output.body}"}
""")
    assert definition.name == "order"
    assert definition.limits == Limits(steps=50, age=2_592_000.0)
    assert definition.top.roots == ("look",)
    assert list(definition.nodes) == ["look", "shape", "pause", "send"]
    look, shape, pause, send = definition.nodes.values()
    assert (look.lane, look.priority, look.timeout) == ("slow", 5, 90.0)
    assert isinstance(look.kind, Task)
    assert look.kind.handler == "crm.lookup"
    assert look.dependents == ("shape", "pause")
    assert isinstance(shape.kind, Transform)
    assert shape.kind.inline
    assert shape.result is not None
    assert shape.result.constant == b"null"
    assert isinstance(pause.kind, Wait)
    assert not pause.kind.inline
    assert send.needs == ("shape", "pause")
    assert send.when is not None
    assert isinstance(send.kind, Http)
    assert (send.kind.method, send.kind.effect) == ("POST", EffectKind.PROVIDER)
    assert send.kind.effect_keep == 86_400.0
    assert send.kind.success == frozenset({200, 202})
    assert definition.top.output is not None


@pytest.mark.parametrize(
    ("http", "effect"),
    [
        ("{url: u}", EffectKind.REPEATABLE),
        ("{url: u, method: HEAD}", EffectKind.REPEATABLE),
        ("{url: u, method: POST}", EffectKind.NONE),
        ("{url: u, method: DELETE}", EffectKind.NONE),
        ("{url: u, method: PUT, effect: provider}", EffectKind.PROVIDER),
        ("{url: u, method: GET, effect: none}", EffectKind.NONE),
    ],
)
def test_an_undeclared_call_is_none_but_get_and_head_may_be_repeated(
    http: str, effect: EffectKind
) -> None:
    kind = nodes(f"  a: {{http: {http}}}").nodes["a"].kind
    assert isinstance(kind, Http)
    assert kind.effect is effect


@pytest.mark.parametrize(
    ("retry", "rules"),
    [
        ("", ()),
        (", retry: {max: 0}", (RetryRule(frozenset(), 0, 1.0, 2.0, 300.0),)),
        (", retry: {max: 2, base: 2s}, lane: slow", (RetryRule(frozenset(), 2, 2.0, 2.0, 600.0),)),
        (
            ", retry: [{on: [TIMEOUT], cap: 1m}, {on: [permanent], max: 1, factor: 3}]",
            (
                RetryRule(frozenset({"TIMEOUT"}), 5, 1.0, 2.0, 60.0),
                RetryRule(frozenset({"permanent"}), 1, 1.0, 3.0, 300.0),
            ),
        ),
    ],
)
def test_retry_rules_take_what_they_leave_out_from_the_lane(
    retry: str, rules: tuple[RetryRule, ...]
) -> None:
    assert nodes(f"  a: {{task: {{handler: h}}{retry}}}").nodes["a"].retry == rules


def test_without_an_output_the_leaves_are_the_output() -> None:
    definition = nodes("  a: {wait: 1s}\n  b: {needs: [a], wait: 1s}\n  c-1: {wait: 1s}")
    assert definition.top.output is None
    assert {read.node for read in definition.top.leaf_output.reads} == {"b", "c-1"}


def test_every_problem_is_told_at_once_with_its_place() -> None:
    found = problems("""
name: Bad Name
foo: 1
input: {type: strange}
limits: {steps: 0, age: soon}
nodes:
  a: {needs: [b], task: {handler: "x y"}, retry: {max: -1, base: abc}}
  b: {needs: [a, zz], wait: 10q}
  c: {transform: "${nodes.f.output +}", when: "${true}"}
  d: {transform: "${nodes.c.output} ${item} ${foo}"}
  e: {task: {}, lane: nope}
  f: {}
  g: {task: {handler: h}, http: {url: u}}
  h: 5
  "1x": {wait: 1s}
output: "${nodes.qq.output}"
""")
    assert set(found) == {
        "name",
        "foo",
        "input",
        "limits.steps",
        "limits.age",
        "nodes",
        "nodes.a.needs",
        "nodes.a.task.handler",
        "nodes.a.retry.max",
        "nodes.a.retry.base",
        "nodes.b.needs[1]",
        "nodes.b.wait",
        "nodes.c.transform",
        "nodes.c.when",
        "nodes.d.transform",
        "nodes.e.task.handler",
        "nodes.e.lane",
        "nodes.f",
        "nodes.g",
        "nodes.h",
        "output",
    }
    assert found["nodes.a.needs"] == ["a cycle: a -> b -> a"]
    assert found["nodes.b.needs[1]"] == ["there is no node 'zz'"]
    assert found["nodes.e.lane"] == ["there is no lane 'nope'"]
    assert found["output"] == ["there is no node 'qq'"]
    assert set(found["nodes.d.transform"]) == {
        "`item` is there inside of a `for_each` only",
        "nothing is called 'foo'",
        "it reads node 'c', which need not have ended before",
    }


def test_the_refusal_carries_its_reason_and_a_violation_for_each_problem() -> None:
    with pytest.raises(DefinitionInvalid) as caught:
        read("name: w\nnodes: {a: {wait: soon}, b: {wait: 1s, colour: red}}")
    error = caught.value
    assert error.reason is Reason.DEFINITION_INVALID
    assert [v.field for v in error.violations] == ["nodes.b.colour", "nodes.a.wait"]


@pytest.mark.parametrize(
    ("document", "path", "name"),
    [
        ("trigger: {event: x}", "trigger", "trigger"),
    ],
)
def test_later_constructs_of_the_document_are_refused_by_name(
    document: str, path: str, name: str
) -> None:
    found = problems(f"name: w\nnodes: {{a: {{wait: 1s}}}}\n{document}")
    assert found == {path: [f"not in this version yet: {name}"]}


@pytest.mark.parametrize(
    "construct",
    [
        "approval",
    ],
)
def test_later_kinds_are_refused_by_name_and_by_nothing_else(construct: str) -> None:
    reader = "b: {needs: [a], transform: '${nodes.a.output}'}"
    found = problems(f"name: w\nnodes: {{a: {{{construct}: {{}}}}, {reader}}}")
    assert found == {f"nodes.a.{construct}": [f"not in this version yet: {construct}"]}


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("wait: 1s", "only the call of an `http` or `grpc` node is named so"),
        ("task: {handler: h}", "only the call of an `http` or `grpc` node is named so"),
        ("http: {url: u}", "the effect of a call that may be repeated at will is not recorded"),
    ],
)
def test_an_effect_that_no_key_is_made_for_has_no_name(kind: str, reason: str) -> None:
    found = problems(f"name: w\nnodes: {{a: {{{kind}, effect_key: x}}}}")
    assert found == {"nodes.a.effect_key": [reason]}


@pytest.mark.parametrize(
    ("kind", "path", "name"),
    [
        ("wait: {duration: 1s, until: x}", "wait.until", "until"),
    ],
)
def test_later_constructs_inside_a_kind_are_refused_by_name(
    kind: str, path: str, name: str
) -> None:
    found = problems(f"name: w\nnodes: {{a: {{{kind}}}}}")
    assert found == {f"nodes.a.{path}": [f"not in this version yet: {name}"]}


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("task: {handler: h}, cost: 1", "a handler tells itself what it spent"),
        ("http: {url: u}", "nothing is set aside for the node"),
        ("wait: 1s", "nothing is set aside for the node"),
    ],
)
def test_only_a_call_with_an_estimate_tells_what_it_spent(kind: str, reason: str) -> None:
    found = problems(f"name: w\nnodes: {{a: {{{kind}, spent: 1}}}}")
    assert found == {"nodes.a.spent": [reason]}


@pytest.mark.parametrize(
    "key", ["lane: io", "retry: {max: 1}", "timeout: 1s", "priority: 1", "connection: crm"]
)
@pytest.mark.parametrize("kind", ["wait: 1s", "transform: 1"])
def test_what_has_no_meaning_on_a_kind_is_refused(kind: str, key: str) -> None:
    name = key.split(":")[0]
    found = problems(f"name: w\nnodes: {{a: {{{kind}, {key}}}}}")
    assert found == {f"nodes.a.{name}": ["this kind of node uses no lane and is tried once"]}


def test_a_node_may_only_read_what_has_ended_before() -> None:
    nodes("""
  a: {transform: 1}
  b: {needs: [a], transform: 1}
  c: {needs: [b], transform: "${nodes.a.output}", result: "${nodes.c.output + nodes.a.output}"}
""")
    found = problems("""
name: w
nodes:
  a: {transform: "${nodes.a.output}"}
  b: {transform: 1, when: nodes.c.status == 'x'}
  c: {needs: [b], transform: 1}
""")
    assert found == {
        "nodes.a.transform": ["it reads node 'a', which need not have ended before"],
        "nodes.b.when": ["it reads node 'c', which need not have ended before"],
    }


def test_a_cycle_of_one_is_a_cycle() -> None:
    assert problems("name: w\nnodes: {a: {needs: [a], wait: 1s}}") == {
        "nodes.a.needs": ["a cycle: a -> a"]
    }


def test_text_that_looks_like_a_truth_value_is_a_warning() -> None:
    definition = nodes(
        """  a: {task: {handler: h, input: {ok: "true", l: ["False"], yes: true}}}"""
    )
    assert definition.warnings == (
        Problem(
            "nodes.a.task.input.ok", "'true' is text, not a truth value", "write it without quotes"
        ),
        Problem(
            "nodes.a.task.input.l[0]",
            "'False' is text, not a truth value",
            "write it without quotes",
        ),
    )


def test_a_condition_may_be_a_truth_value_of_the_document() -> None:
    when = nodes("  a: {wait: 1s, when: false}").nodes["a"].when
    assert when is not None
    assert when.source == "false"


def test_two_parses_of_one_document_are_equal() -> None:
    text = "  a: {transform: {x: '${input.a + 1}', y: '${input.b}'}, when: input.ok}"
    assert nodes(text).nodes == nodes(text).nodes


def test_a_thousand_problems_are_cut_to_a_readable_number() -> None:
    found = problems("name: w\nnodes:\n" + "".join(f"  n{n}: {{wait: x}}\n" for n in range(300)))
    assert len(found) == 100


@pytest.mark.parametrize("handler", ["crm.lookup", "pkg.module:function", "a/b-c_d", "h"])
def test_handler_names(handler: str) -> None:
    kind = nodes(f"  a: {{task: {{handler: '{handler}'}}}}").nodes["a"].kind
    assert isinstance(kind, Task)
    assert kind.handler == handler


@pytest.mark.parametrize("handler", ["", "1x", "${input.h}", "a b", "x" * 201])
def test_what_is_no_handler_name_is_refused(handler: str) -> None:
    found = problems(f"name: w\nnodes: {{a: {{task: {{handler: '{handler}'}}}}}}")
    assert list(found) == ["nodes.a.task.handler"]


@pytest.mark.parametrize("kind", ["transform: 1", "fail: {code: c}", "finish: {}"])
def test_a_node_that_ends_at_once_has_no_deadline(kind: str) -> None:
    found = problems(f"name: w\nnodes: {{a: {{{kind}, deadline: 1h}}}}")
    assert found == {"nodes.a.deadline": ["this kind of node ends at once"]}


@pytest.mark.parametrize("value", ["soon", "0", "-1", "[]"])
@pytest.mark.parametrize("place", ["deadline", "nodes.a.deadline"])
def test_a_deadline_is_a_duration_longer_than_nothing(place: str, value: str) -> None:
    of_node, of_run = ("", value) if place == "deadline" else (f", deadline: {value}", "")
    run = f"\ndeadline: {of_run}" if of_run else ""
    assert set(problems(f"name: w\nnodes: {{a: {{wait: 1s{of_node}}}}}{run}")) == {place}


def test_the_deadline_of_a_run_reads_no_node() -> None:
    found = problems("name: w\nnodes: {a: {wait: 1s}}\ndeadline: ${nodes.a.output}")
    assert found == {"deadline": ["no node has ended when the run starts"]}


def test_two_nodes_never_publish_under_one_name() -> None:
    found = problems("name: w\nnodes: {a: {wait: 1s, publish: x}, b: {wait: 1s, publish: x}}")
    assert found == {"nodes.b.publish": ["node 'a' publishes under this name already"]}


@pytest.mark.parametrize("join", ["", ", join: all", ", join: strict", ", join: settled"])
def test_only_a_join_that_leaves_branches_open_cancels_the_rest(join: str) -> None:
    found = problems(
        f"name: w\nnodes: {{a: {{wait: 1s}}, b: {{needs: [a], wait: 1s, cancel_rest: true{join}}}}}"
    )
    assert found == {"nodes.b.cancel_rest": ["this join waits for every need, so nothing is left"]}


def test_a_node_of_a_sub_graph_publishes_nothing() -> None:
    found = problems("name: w\nnodes: {a: {group: {nodes: {b: {wait: 1s, publish: x}}}}}")
    assert found == {"nodes.a.group.nodes.b.publish": ["a sub-graph has no output to give away"]}


@pytest.mark.parametrize(
    ("exclusive", "path"),
    [
        ("{policy: queue}", "exclusive.key"),
        ("{key: x, policy: wait}", "exclusive.policy"),
        ("{key: ''}", "exclusive.key"),
        ("{key: '${nodes.a.output}'}", "exclusive.key"),
        ("x", "exclusive"),
    ],
)
def test_an_exclusive_key_is_a_template_over_the_input(exclusive: str, path: str) -> None:
    found = problems(f"name: w\nnodes: {{a: {{wait: 1s}}}}\nexclusive: {exclusive}")
    assert set(found) == {path}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("name: w\nnodes: {a: {wait: 1s, subject: ada}}", "nodes.a.subject"),
        ("name: w\nsubject: ada\nnodes: {a: {wait: 1s, purpose: p}}", "nodes.a.purpose"),
        ("name: w\nnodes: {a: {task: {handler: h}, purpose: p}}", "nodes.a.purpose"),
        ("name: w\nnodes: {a: {task: {handler: h}, subject: s, purpose: P!}}", "nodes.a.purpose"),
        ("name: w\nnodes: {a: {task: {handler: h}, subject: true}}", "nodes.a.subject"),
        ("name: w\nsubject: '${nodes.a.output}'\nnodes: {a: {wait: 1s}}", "subject"),
        ("name: w\nnodes: {a: {wait: 1s, cost: 1}}", "nodes.a.cost"),
        ("name: w\nlimits: {cost: much}\nnodes: {a: {wait: 1s}}", "limits.cost"),
        ("name: w\nlimits: {cost: -1}\nnodes: {a: {wait: 1s}}", "limits.cost"),
    ],
)
def test_subjects_and_costs_stand_on_work_and_a_purpose_says_for_whom(text: str, path: str) -> None:
    assert list(problems(text)) == [path]


def test_a_connection_is_a_name_or_an_expression() -> None:
    named = read("name: w\nnodes: {a: {task: {handler: h}, connection: crm}}").nodes["a"]
    given = read("name: w\nnodes: {a: {task: {handler: h}, connection: '${input.c}'}}").nodes["a"]
    assert named.connection == "crm"
    assert isinstance(given.connection, Template)
    found = problems("name: w\nnodes: {a: {task: {handler: h}, connection: 'My CRM'}}")
    assert found == {"nodes.a.connection": ["not the name of a connection"]}
