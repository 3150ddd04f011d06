"""What a decision may read is found at publish, from the graph and the expressions (design 4)."""

from __future__ import annotations

import pytest
from perdure_machine.definition import Definition, Prefetch, parse

LANES = frozenset({"io", "slow"})


def nodes(text: str, output: str = "") -> Definition:
    end = f"\noutput: {output}" if output else ""
    return parse(f"name: w\nnodes:\n{text}{end}".encode(), known_lanes=LANES)


def prefetch(steps: str = "", outputs: str = "", *, reads_input: bool = False) -> Prefetch:
    return Prefetch(frozenset(steps.split()), frozenset(outputs.split()), reads_input)


def after(definition: Definition, id_: str) -> Prefetch:
    return definition.nodes[id_].prefetch


CHAIN = """
  a: {task: {handler: h, input: 1}}
  b: {needs: [a], task: {handler: h, input: 1}}
  c: {needs: [b], task: {handler: h, input: 1}}
  d: {needs: [c], task: {handler: h, input: 1}}
"""


def test_in_a_chain_only_the_next_node_is_read() -> None:
    definition = nodes(CHAIN)
    assert definition.top.start_prefetch == prefetch("a")
    assert after(definition, "a") == prefetch("a b")
    assert after(definition, "c") == prefetch("c d")


def test_the_last_node_reads_the_output_of_the_run() -> None:
    assert after(nodes(CHAIN), "d") == prefetch("d", "d")
    definition = nodes(CHAIN, "{x: '${nodes.a.output}', y: '${input.z}'}")
    assert after(definition, "d") == prefetch("a d", "a", reads_input=True)
    assert after(definition, "c") == prefetch("c d")


def test_a_join_reads_all_that_it_needs() -> None:
    definition = nodes("""
  a: {task: {handler: h, input: 1}}
  b: {task: {handler: h, input: 1}}
  c: {needs: [a, b], task: {handler: h, input: "${nodes.a.output.x}"}}
""")
    assert after(definition, "b") == prefetch("a b c", "a")


def test_inline_nodes_are_followed_to_the_next_that_takes_time() -> None:
    definition = nodes("""
  a: {task: {handler: h, input: 1}}
  b: {needs: [a], transform: "${nodes.a.output.x}"}
  c: {needs: [b], transform: "${input.y}", result: "${nodes.b.output}"}
  d: {needs: [c], task: {handler: h, input: "${nodes.c.output}"}}
  e: {needs: [d], task: {handler: h, input: "${nodes.d.output}"}}
""")
    assert after(definition, "a") == prefetch("a b c d", "a b c", reads_input=True)
    assert after(definition, "d") == prefetch("d e", "d")


def test_a_node_that_may_be_skipped_lets_the_skip_pass_on() -> None:
    definition = nodes("""
  a: {task: {handler: h, input: 1}}
  b: {needs: [a], when: nodes.a.output.ok, task: {handler: h, input: 1}}
  c: {needs: [b], task: {handler: h, input: 1}}
  d: {needs: [c, a], task: {handler: h, input: 1}}
  e: {needs: [d], task: {handler: h, input: 1}}
""")
    assert after(definition, "a") == prefetch("a b c d", "a")
    assert after(definition, "b") == prefetch("b c")


def test_the_start_follows_inline_and_skippable_roots() -> None:
    definition = nodes("""
  a: {transform: "${input.x}"}
  b: {when: input.ok, wait: 1s}
  c: {needs: [a, b], task: {handler: h, input: "${nodes.a.output}"}}
""")
    assert definition.top.start_prefetch == prefetch("a b c", "a", reads_input=True)


def test_a_run_of_inline_nodes_reads_its_output_at_the_start() -> None:
    definition = nodes("  a: {transform: 1}\n  b: {needs: [a], transform: 2}")
    assert definition.top.start_prefetch == prefetch("a b", "b")


def test_a_run_whose_nodes_may_all_be_skipped_reads_its_output_at_the_start() -> None:
    definition = nodes("  a: {when: input.x, wait: 1s}\n  b: {needs: [a], wait: 1s}")
    assert definition.top.start_prefetch == prefetch("a b", "b", reads_input=True)


def test_a_status_needs_the_state_and_not_the_output() -> None:
    definition = nodes("""
  a: {task: {handler: h, input: 1}}
  b: {needs: [a], task: {handler: h, input: 1}}
  c: {needs: [b], when: nodes.a.status == 'skipped', wait: 1s}
  d: {needs: [c], task: {handler: h, input: 1}}
""")
    assert after(definition, "b") == prefetch("a b c d", "d")


def test_the_result_of_a_node_that_ends_is_read_and_of_one_that_begins_is_not() -> None:
    definition = nodes("""
  a: {task: {handler: h, input: 1}}
  b: {needs: [a], task: {handler: h, input: 1}, result: "${nodes.a.output + nodes.b.output}"}
  c: {needs: [b], task: {handler: h, input: 1}}
""")
    assert after(definition, "a") == prefetch("a b")
    assert after(definition, "b") == prefetch("a b c", "a b")


@pytest.mark.parametrize(("written", "reads_input"), [("h}", True), ("h, input: 1}", False)])
def test_a_task_without_an_input_of_its_own_gets_the_runs(written: str, reads_input: bool) -> None:
    definition = nodes(f"  a: {{task: {{handler: {written}}}")
    assert definition.top.start_prefetch == prefetch("a", reads_input=reads_input)
