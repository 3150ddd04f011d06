"""Every commit, stream command and RPC send goes through a wrapper that passes a fail point.

The crash matrix kills a process at each point that the code declares, so a send without a point is
a send whose loss nobody has tried. Three rules:

- a guarded call stands only in the folder that owns its kind, in a function that passes a point;
- a point is a constant of its module, named by a literal that starts with its library or service;
- a declared point is used, and no two have one name.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.findings import ROOT, Finding, Source, project_files, read_sources, report

PASSING = {"around", "around_sync", "before", "before_sync", "after", "after_sync"}
STREAM_WRITES = {"xadd", "xack", "xdel", "xautoclaim"}
CHANNEL_MAKERS = {"insecure_channel", "secure_channel"}
TRANSACTION_WORD = re.compile(r"\s*(BEGIN|START TRANSACTION|COMMIT|END)\b", re.IGNORECASE)
POINT_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
DECLARING_MODULE = "libs/runtime/perdure_runtime/fail_points.py"


@dataclass(frozen=True, slots=True)
class Guard:
    """One kind of call, the paths that may hold it, and whether a point must be passed there."""

    kind: str
    matches: Callable[[ast.Call], bool]
    homes: tuple[str, ...]
    passes_point: bool


@dataclass(frozen=True, slots=True)
class Declaration:
    """One `NAME = declare("...")` of a module."""

    source: Source
    line: int
    constant: str
    name: str


def lint(sources: Sequence[Source], rpc_names: frozenset[str]) -> list[Finding]:
    """Return every broken rule; `rpc_names` are the methods of the protos."""
    declarations, findings = read_declarations(sources)
    for source in sources:
        for guard in guards(rpc_names):
            findings.extend(unguarded_calls(source, guard))
    findings.extend(repeated_names(declarations))
    findings.extend(unused_points(declarations, sources))
    return findings


OUTSIDE = "services/worker/perdure_worker/executors/grpc_calls.py"
"""Calls outside, whose places to break off are at the provider."""


def guards(rpc_names: frozenset[str]) -> tuple[Guard, ...]:
    """Return what is guarded and where it may stand."""
    client = ("libs/runtime/perdure_runtime/rpc/client.py", "libs/sdk/perdure/client")
    return (
        Guard("stream command", calls_method(STREAM_WRITES), ("libs/streams/",), True),
        Guard("transaction", opens_or_commits, ("libs/store/",), True),
        Guard("statement", executes_text, ("libs/store/", "libs/stack/"), False),
        Guard("RPC", calls_method(rpc_names), client, True),
        Guard("channel", calls_method(CHANNEL_MAKERS), (*client, OUTSIDE), False),
    )


def calls_method(names: Iterable[str]) -> Callable[[ast.Call], bool]:
    """Return a test for `something.name(...)`."""
    wanted = frozenset(names)
    return lambda call: isinstance(call.func, ast.Attribute) and call.func.attr in wanted


def opens_or_commits(call: ast.Call) -> bool:
    """Tell whether a call is asyncpg's `transaction()` or executes BEGIN or COMMIT."""
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr == "transaction":
        return True
    first = call.args[0] if call.args else None
    text = first.value if isinstance(first, ast.Constant) else None
    return (
        call.func.attr == "execute"
        and isinstance(text, str)
        and TRANSACTION_WORD.match(text) is not None
    )


def executes_text(call: ast.Call) -> bool:
    """Tell whether a call executes a statement without reading rows, so for what it writes."""
    if not isinstance(call.func, ast.Attribute):
        return False
    return call.func.attr == "executemany" or (call.func.attr == "execute" and bool(call.args))


def unguarded_calls(source: Source, guard: Guard) -> Iterator[Finding]:
    """Yield the calls of one kind that stand elsewhere or pass no point."""
    at_home = source.path.startswith(guard.homes)
    for call, function in calls_in(source.tree):
        if not guard.matches(call):
            continue
        if not at_home:
            homes = ", ".join(guard.homes)
            yield Finding(source.path, call.lineno, f"{guard.kind} outside of {homes}")
        elif guard.passes_point and not passes_point(function):
            yield Finding(source.path, call.lineno, f"{guard.kind} without a fail point around it")


def calls_in(
    node: ast.AST, function: ast.AST | None = None
) -> Iterator[tuple[ast.Call, ast.AST | None]]:
    """Yield each call with the innermost function that holds it."""
    for child in ast.iter_child_nodes(node):
        inner = child if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
        if isinstance(child, ast.Call):
            yield child, function
        yield from calls_in(child, inner)


def passes_point(function: ast.AST | None) -> bool:
    """Tell whether a function passes a fail point, its own or one that it was given."""
    passed = calls_method(PASSING)
    return function is not None and any(
        isinstance(node, ast.Call) and passed(node) for node in ast.walk(function)
    )


def read_declarations(sources: Sequence[Source]) -> tuple[list[Declaration], list[Finding]]:
    """Return the well-formed declarations and what is wrong with the others."""
    declarations: list[Declaration] = []
    findings: list[Finding] = []
    for source in sources:
        if source.path == DECLARING_MODULE:
            continue
        constants = module_constants(source.tree)
        for call, _ in calls_in(source.tree):
            if not is_declare(call):
                continue
            answer = read_declaration(source, call, constants.get(call))
            if isinstance(answer, Declaration):
                declarations.append(answer)
            else:
                findings.append(answer)
    return declarations, findings


def module_constants(tree: ast.Module) -> dict[ast.expr, str]:
    """Return value expression -> NAME of the module's own assignments of one upper-case name."""
    constants: dict[ast.expr, str] = {}
    for statement in tree.body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ) if name.isupper():
                constants[value] = name
    return constants


def is_declare(call: ast.Call) -> bool:
    """Tell whether a call is `declare(...)` or `fail_points.declare(...)`."""
    match call.func:
        case ast.Name(id="declare"):
            return True
        case ast.Attribute(value=ast.Name(id="fail_points"), attr="declare"):
            return True
    return False


def read_declaration(source: Source, call: ast.Call, constant: str | None) -> Declaration | Finding:
    """Check one declaration against the form that the crash matrix can enumerate."""
    if constant is None:
        return Finding(source.path, call.lineno, "a fail point is a constant of its module")
    match call.args:
        case [ast.Constant(value=str(name))] if POINT_NAME.fullmatch(name):
            pass
        case _:
            return Finding(source.path, call.lineno, "a fail point's name is a dotted literal")
    owner = source.path.split("/")[1]
    if not name.startswith(f"{owner}."):
        return Finding(source.path, call.lineno, f"{name!r} does not start with {owner!r}")
    return Declaration(source, call.lineno, constant, name)


def repeated_names(declarations: Sequence[Declaration]) -> Iterator[Finding]:
    """Yield each declaration whose name an earlier one took."""
    seen: dict[str, Declaration] = {}
    for declared in declarations:
        first = seen.setdefault(declared.name, declared)
        if first is not declared:
            where = f"{first.source.path}:{first.line}"
            yield Finding(
                declared.source.path, declared.line, f"{declared.name!r} is declared at {where}"
            )


def unused_points(
    declarations: Sequence[Declaration], sources: Sequence[Source]
) -> Iterator[Finding]:
    """Yield each declared constant that neither its module nor another reads."""
    reads = {source.path: names_read(source.tree) for source in sources}
    for declared in declarations:
        if not any(declared.constant in names for names in reads.values()):
            yield Finding(declared.source.path, declared.line, f"{declared.constant} is never used")


def names_read(tree: ast.Module) -> set[str]:
    """Return the names and attributes that a module reads."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
                names.add(name)
    return names


def rpc_names_of(protos: Iterable[Path]) -> frozenset[str]:
    """Return the names of all RPCs in the protos."""
    found = re.compile(r"^\s*rpc\s+(\w+)", re.MULTILINE)
    return frozenset(name for proto in protos for name in found.findall(proto.read_text()))


def is_runtime_code(path: str) -> bool:
    """Tell whether a path is code that runs in production."""
    return path.startswith(("libs/", "services/")) and not path.startswith("libs/testkit/")


def main() -> int:
    """Lint the repository."""
    sources = read_sources(filter(is_runtime_code, project_files()))
    findings = lint(sources, rpc_names_of((ROOT / "proto").rglob("*.proto")))
    declarations, _ = read_declarations(sources)
    return report("fail-point-lint", findings, f"{len(declarations)} points")


if __name__ == "__main__":
    sys.exit(main())
