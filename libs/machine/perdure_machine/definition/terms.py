"""Compiles what a start settles for the whole run: its deadline, its key, whom it is about."""

from __future__ import annotations

from collections.abc import Mapping

from perdure_machine.definition.compiling import lasting_at, mapping, template_at
from perdure_machine.definition.model import Exclusive, ExclusivePolicy
from perdure_machine.definition.problems import Problems
from perdure_machine.definition.reading import check_no_callbacks, check_roots
from perdure_machine.expressions import Read, Template
from perdure_machine.expressions.values import Json
from perdure_machine.payload import Path


def deadline(document: Mapping[str, Json], problems: Problems) -> Template | None:
    """Compile the deadline of the whole run."""
    if "deadline" not in document:
        return None
    reads: list[tuple[Path, Read]] = []
    template = lasting_at(document["deadline"], ("deadline",), problems, reads)
    check_start_reads(reads, problems)
    return template


def exclusive(document: Mapping[str, Json], problems: Problems) -> Exclusive | None:
    """Compile the key that one run at a time may hold."""
    members = mapping(document.get("exclusive"))
    if "key" not in members:
        return None
    reads: list[tuple[Path, Read]] = []
    key = template_at(members["key"], ("exclusive", "key"), problems, reads)
    check_start_reads(reads, problems)
    policy = members.get("policy")
    known = isinstance(policy, str) and policy in set(ExclusivePolicy)
    return Exclusive(key, ExclusivePolicy(str(policy)) if known else ExclusivePolicy.QUEUE)


def subject(document: Mapping[str, Json], problems: Problems) -> Template | None:
    """Compile whom the whole run is about."""
    if "subject" not in document:
        return None
    reads: list[tuple[Path, Read]] = []
    template = template_at(document["subject"], ("subject",), problems, reads)
    check_start_reads(reads, problems)
    return template


def check_start_reads(reads: list[tuple[Path, Read]], problems: Problems) -> None:
    """Note reads of what is not there yet when a run starts."""
    check_roots(reads, frozenset(), problems)
    check_no_callbacks(reads, problems)
    for path, read in reads:
        if read.node is not None:
            problems.add(path, "no node has ended when the run starts", "read `input` and `run`")
