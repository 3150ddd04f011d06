"""Checks a document where no operator has said which lanes there are."""

from __future__ import annotations

from perdure_machine.definition.model import LANE_RETRY, Problem
from perdure_machine.definition.parse import parse
from perdure_machine.definition.problems import DefinitionInvalid

Problems = tuple[Problem, ...]


def check(document: bytes) -> tuple[Problems, Problems]:
    """Return what would refuse a document at publish, and what is doubtful about it.

    Only the lanes that are there from the start are known.
    """
    try:
        return (), parse(document, known_lanes=frozenset(LANE_RETRY)).warnings
    except DefinitionInvalid as refusal:
        return refusal.problems, ()
