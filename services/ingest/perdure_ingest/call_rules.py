"""How long calls of the public API may take, whatever deadline their callers set.

What is left of a call's time bounds the calls to the coordinator that are made for it.
"""

from __future__ import annotations

from types import MappingProxyType

from perdure_runtime.rpc.interceptor import CallRules

LONGEST_CALL = 20.0
"""Seconds: longer than the coordinator is asked for one answer, with its repeats."""

LONGEST_BULK_CALL = 30.0
"""Of calls that look at or make many runs, or check and store a whole document."""

LONGEST_STREAM = 300.0
"""Of streams, which end themselves long before with their clients asked to come back."""

_BULK = (
    "DeadLetterService/ReplayDeadLetters",
    "JobService/EnqueueJobs",
    "JobService/PutJobType",
    "JobService/ReplayDeadJobs",
    "SystemService/Diagnose",
    "WorkflowService/MigrateRuns",
    "WorkflowService/PublishWorkflow",
    "WorkflowService/ValidateWorkflow",
)

RULES_OF_CALLS = CallRules(
    default_limit=LONGEST_CALL,
    limits=MappingProxyType(
        {f"/perdure.v1.{method}": LONGEST_BULK_CALL for method in _BULK}
        | {"/perdure.v1.RunService/WatchRun": LONGEST_STREAM}
    ),
    advise=True,
)
"""What holds for calls at every public door."""
