"""Published versions, and what is wrong with a document, as messages."""

from __future__ import annotations

from collections.abc import Iterable

from perdure_contracts.v1 import workflow_pb2
from perdure_machine.definition import Problem
from perdure_store.reads.rows import WorkflowRow

from perdure_ingest.views.instants import timestamp


def workflow_message(row: WorkflowRow) -> workflow_pb2.Workflow:
    """Show a version."""
    return workflow_pb2.Workflow(
        name=row.name,
        version=row.version,
        digest=row.digest,
        document=row.document,
        published_at=timestamp(row.published_at),
    )


def problem_messages(problems: Iterable[Problem]) -> list[workflow_pb2.DefinitionProblem]:
    """Show problems of a document, in their order."""
    return [
        workflow_pb2.DefinitionProblem(path=each.path, reason=each.reason, hint=each.hint)
        for each in problems
    ]
