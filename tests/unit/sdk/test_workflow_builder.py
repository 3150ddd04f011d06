"""What the builder writes is what a person writes by hand, for every construct."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import perdure.workflow as wf
import pytest
from perdure_machine.definition import parse

LANES = frozenset({"io", "slow"})
A, B, C, D = (wf.Node(id_) for id_ in "abcd")
ECHO = wf.Task("echo")

Built = wf.Workflow

CONSTRUCTS: dict[str, tuple[str, Built]] = {}


def construct(name: str, by_hand: str, built: Built) -> None:
    CONSTRUCTS[name] = (by_hand, built)


construct(
    "the document",
    """
    name: all
    input: {type: object, properties: {n: {type: integer, default: 3}}}
    output: {n: "${input.n}", all: ["${nodes.a.output}", null, 1.5, true, "text"]}
    limits: {steps: 50, age: 30d}
    on_error: finish_others
    at_end: [{on: any, then: [b]}]
    nodes: {a: {task: {handler: echo}}, b: {task: {handler: echo}}}
    """,
    wf.Workflow(
        "all",
        {A: ECHO, B: ECHO},
        input={"type": "object", "properties": {"n": {"type": "integer", "default": 3}}},
        output={"n": wf.INPUT["n"], "all": [A.output, None, 1.5, True, "text"]},
        limits=wf.Limits(steps=50, age="30d"),
        on_error="finish_others",
        at_end=[wf.AtEnd("any", [B])],
    ),
)
construct(
    "for_each",
    """
    name: batches
    nodes:
      a:
        for_each:
          in: "${input.orders}"
          as: order
          concurrency: 10
          batch: 2
          failures: {max: 3, then: finish}
          stop_when: output.b == 1
          output: "${nodes.b.output}"
          nodes: {b: {task: {handler: ship, input: ["${order}", "${index}", "${item}"]}}}
        retry: {max: 2}
    """,
    wf.Workflow(
        "batches",
        {
            A: wf.ForEach(
                wf.INPUT["orders"],
                {B: wf.Task("ship", [wf.cel("order"), wf.INDEX, wf.ITEM])},
                as_="order",
                concurrency=10,
                batch=2,
                failures=wf.Failures(max=3, then="finish"),
                stop_when=wf.cel("output.b == 1"),
                output=B.output,
                retry=wf.Retry(max=2),
            )
        },
    ),
)
construct(
    "source",
    """
    name: pages
    nodes:
      a:
        for_each:
          source: {handler: crm.page, input: {after: "${cursor}"}, lane: slow, timeout: 90s}
          nodes: {b: {task: {handler: ship, input: "${item}"}}}
    """,
    wf.Workflow(
        "pages",
        {
            A: wf.ForEach(
                wf.UNSET,
                {B: wf.Task("ship", wf.ITEM)},
                source=wf.Source("crm.page", {"after": wf.CURSOR}, lane="slow", timeout="90s"),
            )
        },
    ),
)
construct(
    "repeat",
    """
    name: loops
    nodes:
      a:
        repeat:
          until: carry.n >= 3
          max: 5
          backoff: {base: 1s, factor: 3, cap: 1m}
          on_exhausted: done
          carry: {n: {init: 0, next: "${carry.n + 1}"}}
          nodes: {b: {task: {handler: look}}}
      c: {repeat: {while: "index < 3", every: 10s, nodes: {d: {task: {handler: look}}}}}
    """,
    wf.Workflow(
        "loops",
        {
            A: wf.Repeat(
                {B: wf.Task("look")},
                until=wf.CARRY["n"] >= 3,
                max=5,
                backoff=wf.Backoff(base="1s", factor=3, cap="1m"),
                on_exhausted="done",
                carry={"n": wf.Carry(0, wf.CARRY["n"] + 1)},
            ),
            C: wf.Repeat({D: wf.Task("look")}, while_=wf.INDEX < 3, every="10s"),
        },
    ),
)
construct(
    "group",
    """
    name: units
    nodes: {a: {group: {output: "${nodes.b.output}", nodes: {b: {task: {handler: look}}}}}}
    """,
    wf.Workflow("units", {A: wf.Group({B: wf.Task("look")}, output=B.output)}),
)
construct(
    "task",
    """
    name: tasks
    nodes:
      a:
        task: {handler: crm.lookup, input: {email: "${input.email}", note: "Dear ${input.name}"}}
        lane: slow
        priority: 7
        timeout: 90s
        result: {id: "${nodes.a.output.body.id}"}
      b: {task: {handler: drop}, result: null}
      c: {task: {handler: "${input.by}", one_of: [mail, sms]}}
    """,
    wf.Workflow(
        "tasks",
        {
            A: wf.Task(
                "crm.lookup",
                {"email": wf.INPUT["email"], "note": f"Dear {wf.INPUT['name']}"},
                lane="slow",
                priority=7,
                timeout=timedelta(seconds=90),
                result={"id": A.output["body"]["id"]},
            ),
            B: wf.Task("drop", result=None),
            C: wf.Task(wf.INPUT["by"], one_of=["mail", "sms"]),
        },
    ),
)
construct(
    "http",
    """
    name: calls
    nodes:
      a:
        http:
          url: https://mail.example/${input.id}
          method: POST
          headers: {X-Run: "${run.id}"}
          query: {q: "${input.q}", limit: 10}
          body: {to: "${input.to}"}
          effect: {kind: provider, keep: 24h}
          success: [200, 404]
      b: {http: {url: "${input.url}", method: DELETE, effect: none}}
      c: {http: {url: u, timeouts: {connect: 2s, read: 10}, redirects: 0}}
      d:
        http:
          url: u
          method: POST
          effect:
            kind: reconcile
            lookup: {url: "l/${input.id}", found: answer.body.total == 1, output: "${answer.body}"}
    """,
    wf.Workflow(
        "calls",
        {
            A: wf.Http(
                f"https://mail.example/{wf.INPUT['id']}",
                method="POST",
                headers={"X-Run": wf.RUN["id"]},
                query={"q": wf.INPUT["q"], "limit": 10},
                body={"to": wf.INPUT["to"]},
                effect=wf.Effect("provider", keep="24h"),
                success=[200, 404],
            ),
            B: wf.Http(wf.INPUT["url"], method="DELETE", effect="none"),
            C: wf.Http("u", timeouts=wf.Timeouts("2s", 10), redirects=0),
            D: wf.Http(
                "u",
                method="POST",
                effect=wf.Effect(
                    "reconcile",
                    lookup=wf.HttpLookup(
                        f"l/{wf.INPUT['id']}",
                        found=wf.ANSWER["body"]["total"] == 1,
                        output=wf.ANSWER["body"],
                    ),
                ),
            ),
        },
    ),
)
construct(
    "grpc",
    """
    name: methods
    nodes:
      a:
        grpc:
          target: ${input.region}.example:443
          service: shop.v1.Payments
          method: Charge
          request: {cents: "${input.cents}"}
          metadata: {x-run: "${run.id}"}
          effect: provider
      b: {grpc: {target: "h:1", service: s, method: M, plaintext: true}}
      c:
        grpc:
          target: h:1
          service: s
          method: M
          effect:
            kind: reconcile
            lookup:
              method: Find
              service: t
              request: {id: "${input.id}"}
              metadata: {x: 1}
              found: answer.total == 1
    """,
    wf.Workflow(
        "methods",
        {
            A: wf.Grpc(
                f"{wf.INPUT['region']}.example:443",
                "shop.v1.Payments",
                "Charge",
                {"cents": wf.INPUT["cents"]},
                metadata={"x-run": wf.RUN["id"]},
                effect="provider",
            ),
            B: wf.Grpc("h:1", "s", "M", plaintext=True),
            C: wf.Grpc(
                "h:1",
                "s",
                "M",
                effect=wf.Effect(
                    "reconcile",
                    lookup=wf.GrpcLookup(
                        "Find",
                        {"id": wf.INPUT["id"]},
                        service="t",
                        metadata={"x": 1},
                        found=wf.ANSWER["total"] == 1,
                    ),
                ),
            ),
        },
    ),
)
construct(
    "wait and transform",
    """
    name: inline
    nodes:
      a: {wait: 1.5}
      b: {wait: "${input.delay}"}
      c: {needs: [a, b], transform: null}
      d: {needs: [c], transform: {tags: '${input.tags + ["x"]}', first: "${input.tags[0]}"}}
    """,
    wf.Workflow(
        "inline",
        {
            A: wf.Wait(timedelta(milliseconds=1500)),
            B: wf.Wait(wf.INPUT["delay"]),
            C: wf.Transform(None, needs=[A, B]),
            D: wf.Transform(
                {"tags": wf.INPUT["tags"] + ["x"], "first": wf.INPUT["tags"][0]}, needs=[C]
            ),
        },
    ),
)
construct(
    "children",
    """
    name: parent
    nodes:
      a: {run: {workflow: invoice, input: {order: "${input.order}"}, version: 2}}
      b: {needs: [a], run: {workflow: "${input.kind}", wait: false, on_parent_end: cancel}}
      c: {needs: [b], cancel_run: {run: "${nodes.b.output.run_id}", reason: "of ${input.order}"}}
    """,
    wf.Workflow(
        "parent",
        {
            A: wf.Run("invoice", {"order": wf.INPUT["order"]}, version=2),
            B: wf.Run(wf.INPUT["kind"], wait=False, on_parent_end="cancel", needs=[A]),
            C: wf.CancelRun(B.output["run_id"], f"of {wf.INPUT['order']}", needs=[B]),
        },
    ),
)
construct(
    "signal and emit",
    """
    name: signals
    nodes:
      a:
        signal: {name: reply, key: "order-${input.id}", filter: "signal.data.n > 1"}
        deadline: 3d
      b: {signal: {name: go}, deadline: "${input.patience}"}
      c: {emit: {name: paid, key: "${input.id}", data: {n: 1}}}
      d: {emit: {name: stop, run: "${input.run}"}}
    """,
    wf.Workflow(
        "signals",
        {
            A: wf.Signal(
                "reply", f"order-{wf.INPUT['id']}", wf.SIGNAL["data"]["n"] > 1, deadline="3d"
            ),
            B: wf.Signal("go", deadline=wf.INPUT["patience"]),
            C: wf.Emit("paid", wf.INPUT["id"], data={"n": 1}),
            D: wf.Emit("stop", run=wf.INPUT["run"]),
        },
    ),
)
construct(
    "switch, fail and finish",
    """
    name: ways
    nodes:
      a:
        switch:
          cases:
            - {when: input.n > 80, then: [b, c]}
            - {when: '(input.n > 50) && (input.kind != "vip")', then: [c]}
          else: [d]
      b: {finish: {output: "${input.n}"}}
      c: {fail: {code: SMALL, message: "only ${input.n}", output: {n: "${input.n}"}}}
      d: {finish: {}}
    """,
    wf.Workflow(
        "ways",
        {
            A: wf.Switch(
                [
                    wf.Case(wf.INPUT["n"] > 80, [B, C]),
                    wf.Case((wf.INPUT["n"] > 50) & (wf.INPUT["kind"] != "vip"), [C]),
                ],
                else_=[D],
            ),
            B: wf.Finish(wf.INPUT["n"]),
            C: wf.Fail("SMALL", f"only {wf.INPUT['n']}", {"n": wf.INPUT["n"]}),
            D: wf.Finish(),
        },
    ),
)
construct(
    "failures",
    """
    name: failures
    nodes:
      a:
        task: {handler: echo}
        retry: {max: 3}
        on_failure:
          - {when: error.code == "HTTP_404", output: {found: false}}
          - {when: error.code == "OUT", fail: {code: NO_STOCK, message: "${error.message}"}}
          - {then: [b]}
      b: {transform: "${nodes.a.error.code}"}
      c:
        task: {handler: echo}
        retry:
          - {on: [rate_limited], max: 20, cap: 10m}
          - {on: [TIMEOUT, retryable], max: 3, base: 2s, factor: 1.5}
    """,
    wf.Workflow(
        "failures",
        {
            A: wf.Task(
                "echo",
                retry=wf.Retry(max=3),
                on_failure=[
                    wf.CatchOutput({"found": False}, when=wf.ERROR["code"] == "HTTP_404"),
                    wf.FailAs(
                        wf.Failure("NO_STOCK", wf.ERROR["message"]), when=wf.ERROR["code"] == "OUT"
                    ),
                    wf.CatchThen([B]),
                ],
            ),
            B: wf.Transform(A.error["code"]),
            C: wf.Task(
                "echo",
                retry=[
                    wf.Retry(on=["rate_limited"], max=20, cap="10m"),
                    wf.Retry(on=["TIMEOUT", "retryable"], max=3, base="2s", factor=1.5),
                ],
            ),
        },
    ),
)
construct(
    "deadlines",
    """
    name: deadlines
    deadline: 2h
    exclusive: {key: "${input.account}", policy: replace}
    nodes:
      a: {task: {handler: echo}, timeout: 10s, deadline: "${input.patience}", publish: echoed}
    """,
    wf.Workflow(
        "deadlines",
        {
            A: wf.Task("echo", timeout="10s", deadline=wf.INPUT["patience"], publish="echoed"),
        },
        deadline="2h",
        exclusive=wf.Exclusive(wf.INPUT["account"], policy="replace"),
    ),
)
construct(
    "joins and conditions",
    """
    name: joins
    nodes:
      a: {task: {handler: echo}}
      b: {task: {handler: echo}, when: size(input.tags) > 3}
      c: {needs: [a, b], join: any, cancel_rest: true, transform: "${join.first.output}"}
      d:
        needs: [a, b]
        join: {quorum: "${input.votes}"}
        when: '!(nodes.a.status == "failed")'
        task: {handler: echo}
      e-1: {needs: [c, d], join: strict, transform: "${coalesce(nodes.c.output, 0)}"}
      f: {needs: [e-1], join: settled, transform: '${nodes["e-1"].output}'}
    """,
    wf.Workflow(
        "joins",
        {
            A: ECHO,
            B: wf.Task("echo", when=wf.cel("size(", wf.INPUT["tags"], ") > 3")),
            C: wf.Transform(wf.JOIN_FIRST["output"], needs=[A, B], join="any", cancel_rest=True),
            D: wf.Task(
                "echo",
                needs=[A, B],
                join=wf.Quorum(wf.INPUT["votes"]),
                when=~(A.status == "failed"),
            ),
            (e := wf.Node("e-1")): wf.Transform(
                wf.call("coalesce", C.output, 0), needs=[C, D], join="strict"
            ),
            wf.Node("f"): wf.Transform(e.output, needs=[e], join="settled"),
        },
    ),
)


def meaning(document: str) -> Any:
    return parse(document.encode(), known_lanes=LANES)


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_a_built_workflow_means_what_is_written_by_hand(name: str) -> None:
    by_hand, built = CONSTRUCTS[name]
    assert meaning(built.to_json()) == meaning(by_hand)
    assert meaning(built.to_yaml()) == meaning(by_hand)
