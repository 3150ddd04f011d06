"""Definitions: the published document, checked for form and meaning, as values for `decide`."""

from perdure_machine.definition.inputs import input_with_defaults
from perdure_machine.definition.model import (
    IO_RETRY,
    LANE_RETRY,
    SLOW_RETRY,
    Definition,
    EffectKind,
    Http,
    Kind,
    Limits,
    Node,
    Prefetch,
    Problem,
    RetryRule,
    Task,
    Transform,
    Wait,
)
from perdure_machine.definition.parse import canonical, parse
from perdure_machine.definition.problems import DefinitionInvalid

__all__ = [
    "IO_RETRY",
    "LANE_RETRY",
    "SLOW_RETRY",
    "Definition",
    "DefinitionInvalid",
    "EffectKind",
    "Http",
    "Kind",
    "Limits",
    "Node",
    "Prefetch",
    "Problem",
    "RetryRule",
    "Task",
    "Transform",
    "Wait",
    "canonical",
    "input_with_defaults",
    "parse",
]
