"""Definitions written in Python: values whose document is the one that YAML would hold.

    import perdure.workflow as wf

    lookup, greet = wf.Node("lookup"), wf.Node("greet")
    hello = wf.Workflow(
        "hello",
        {
            lookup: wf.Http(f"https://crm.example/people/{wf.INPUT['id']}"),
            greet: wf.Task(
                "hello.greet",
                {"name": lookup.output["body"]["name"]},
                needs=[lookup],
                when=lookup.output["status"] == 200,
            ),
        },
        output=greet.output,
    )

`hello.to_yaml()` is the document, `client.publish_workflow(hello)` publishes it, and the command
line takes `module:hello` where it takes a file.
"""

from perdure.workflow.blocks import Backoff, Carry, Failures, ForEach, Group, Repeat, Source
from perdure.workflow.document import AtEnd, Exclusive, Limits, Workflow
from perdure.workflow.expressions import (
    ANSWER,
    CARRY,
    CURSOR,
    ERROR,
    INDEX,
    INPUT,
    ITEM,
    JOIN_FIRST,
    RUN,
    SIGNAL,
    THIS,
    Expr,
    Value,
    call,
    cel,
)
from perdure.workflow.kinds import (
    CancelRun,
    Case,
    Effect,
    Emit,
    Fail,
    Finish,
    Grpc,
    GrpcLookup,
    Http,
    HttpLookup,
    Run,
    Signal,
    Switch,
    Task,
    Timeouts,
    Transform,
    Wait,
)
from perdure.workflow.options import (
    CatchOutput,
    CatchThen,
    Compensation,
    FailAs,
    Failure,
    Kind,
    OnFailure,
    Quorum,
    Retry,
)
from perdure.workflow.parts import UNSET, Duration, Node

__all__ = [
    "ANSWER",
    "CARRY",
    "CURSOR",
    "ERROR",
    "INDEX",
    "INPUT",
    "ITEM",
    "JOIN_FIRST",
    "RUN",
    "SIGNAL",
    "THIS",
    "UNSET",
    "AtEnd",
    "Backoff",
    "CancelRun",
    "Carry",
    "Case",
    "CatchOutput",
    "CatchThen",
    "Compensation",
    "Duration",
    "Effect",
    "Emit",
    "Exclusive",
    "Expr",
    "Fail",
    "FailAs",
    "Failure",
    "Failures",
    "Finish",
    "ForEach",
    "Group",
    "Grpc",
    "GrpcLookup",
    "Http",
    "HttpLookup",
    "Kind",
    "Limits",
    "Node",
    "OnFailure",
    "Quorum",
    "Repeat",
    "Retry",
    "Run",
    "Signal",
    "Source",
    "Switch",
    "Task",
    "Timeouts",
    "Transform",
    "Value",
    "Wait",
    "Workflow",
    "call",
    "cel",
]
