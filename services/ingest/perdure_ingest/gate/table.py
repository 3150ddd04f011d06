"""What every method asks of its caller: one table, and what is not in it is refused."""

from __future__ import annotations

from types import MappingProxyType

from perdure_runtime.access import Permission
from perdure_runtime.gate.authorise import Rule, Rules

PACKAGE = "perdure.v1"

_RUNS = {
    "StartRun": Rule(Permission.RUNS_START),
    "GetRun": Rule(Permission.RUNS_READ),
    "ListScopes": Rule(Permission.RUNS_READ),
    "ListRuns": Rule(Permission.RUNS_READ),
    "GetRunHistory": Rule(Permission.RUNS_READ),
    "WatchRun": Rule(Permission.RUNS_READ),
    "SignalRun": Rule(Permission.RUNS_SIGNAL),
    "CancelRun": Rule(Permission.RUNS_CONTROL),
    "TerminateRun": Rule(Permission.RUNS_CONTROL),
    "PauseRun": Rule(Permission.RUNS_CONTROL),
    "ResumeRun": Rule(Permission.RUNS_CONTROL),
    "RetryRun": Rule(Permission.RUNS_CONTROL),
}
_WORKFLOWS = {
    "PublishWorkflow": Rule(Permission.WORKFLOWS_PUBLISH),
    "ValidateWorkflow": Rule(Permission.WORKFLOWS_READ),
    "GetWorkflow": Rule(Permission.WORKFLOWS_READ),
    "ListWorkflows": Rule(Permission.WORKFLOWS_READ),
    "MigrateRuns": Rule(Permission.RUNS_CONTROL),
    "GetMigration": Rule(Permission.RUNS_READ),
}
_DEAD_LETTERS = {
    "ListDeadLetters": Rule(Permission.RUNS_READ),
    "ReplayDeadLetters": Rule(Permission.RUNS_CONTROL),
    "DiscardDeadLetter": Rule(Permission.RUNS_CONTROL),
}
_JOBS = {
    "PutJobType": Rule(Permission.WORKFLOWS_PUBLISH),
    "GetJobType": Rule(Permission.WORKFLOWS_READ),
    "ListJobTypes": Rule(Permission.WORKFLOWS_READ),
    "EnqueueJob": Rule(Permission.RUNS_START),
    "EnqueueJobs": Rule(Permission.RUNS_START),
    "GetJob": Rule(Permission.RUNS_READ),
    "ListJobs": Rule(Permission.RUNS_READ),
    "CancelJob": Rule(Permission.RUNS_CONTROL),
    "ReplayJob": Rule(Permission.RUNS_CONTROL),
    "ListDeadJobs": Rule(Permission.RUNS_READ),
    "ReplayDeadJobs": Rule(Permission.RUNS_CONTROL),
}
_EFFECTS = {
    "ListEffects": Rule(Permission.EFFECTS_READ),
    "GetEffect": Rule(Permission.EFFECTS_READ),
    "DecideEffect": Rule(Permission.EFFECTS_DECIDE),
}
_CONNECTIONS = {
    "PutConnection": Rule(Permission.CONNECTIONS_WRITE),
    "GetConnection": Rule(Permission.CONNECTIONS_READ),
    "ListConnections": Rule(Permission.CONNECTIONS_READ),
    "DeleteConnection": Rule(Permission.CONNECTIONS_WRITE),
    "DisableConnection": Rule(Permission.CONNECTIONS_WRITE),
    "RepairConnection": Rule(Permission.CONNECTIONS_WRITE),
    "ProbeConnection": Rule(Permission.CONNECTIONS_WRITE),
}
_CONSENT = {
    "AddSuppression": Rule(Permission.CONSENT_WRITE),
    "RemoveSuppression": Rule(Permission.CONSENT_WRITE),
    "CheckSuppression": Rule(Permission.CONSENT_READ),
    "ListSuppressions": Rule(Permission.CONSENT_READ),
    "EraseSubject": Rule(Permission.SUBJECTS_ERASE),
    "GetErasure": Rule(Permission.CONSENT_READ),
    "ListErasures": Rule(Permission.CONSENT_READ),
}
_BUDGETS = {
    "PutBudget": Rule(Permission.BUDGETS_WRITE),
    "GetBudget": Rule(Permission.BUDGETS_READ),
    "ListBudgets": Rule(Permission.BUDGETS_READ),
}
_LANES = {
    "PutLane": Rule(Permission.LANES_WRITE, installation=True),
    "GetLane": Rule(Permission.LANES_READ),
    "ListLanes": Rule(Permission.LANES_READ),
    "DeleteLane": Rule(Permission.LANES_WRITE, installation=True),
    "PutOrgWeight": Rule(Permission.LANES_WRITE, installation=True),
    "ListOrgWeights": Rule(Permission.LANES_READ, installation=True),
}
_SYSTEM = {"Diagnose": Rule(Permission.SYSTEM_READ, installation=True)}
_KEYS = {
    "CreateKey": Rule(Permission.KEYS_MANAGE),
    "ListKeys": Rule(Permission.KEYS_MANAGE),
    "RotateKey": Rule(Permission.KEYS_MANAGE),
    "RevokeKey": Rule(Permission.KEYS_MANAGE),
}
_MEMBERS = {
    "PutMember": Rule(Permission.MEMBERS_MANAGE),
    "ListMembers": Rule(Permission.MEMBERS_MANAGE),
    "RemoveMember": Rule(Permission.MEMBERS_MANAGE),
}
_AUDIT = {
    "ListAudit": Rule(Permission.AUDIT_READ),
    "ListInstallationAudit": Rule(Permission.AUDIT_READ, installation=True),
}

_SERVICES = {
    "RunService": _RUNS,
    "WorkflowService": _WORKFLOWS,
    "DeadLetterService": _DEAD_LETTERS,
    "JobService": _JOBS,
    "EffectService": _EFFECTS,
    "ConnectionService": _CONNECTIONS,
    "ConsentService": _CONSENT,
    "BudgetService": _BUDGETS,
    "LaneService": _LANES,
    "SystemService": _SYSTEM,
    "KeyService": _KEYS,
    "MemberService": _MEMBERS,
    "AuditService": _AUDIT,
}

RULES: Rules = MappingProxyType(
    {
        f"/{PACKAGE}.{service}/{method}": rule
        for service, methods in _SERVICES.items()
        for method, rule in methods.items()
    }
)
"""By full method name, such as `/perdure.v1.RunService/StartRun`."""
