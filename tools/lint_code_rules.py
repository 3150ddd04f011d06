"""Rules that no other linter has: a pure machine, tests that wait on events, files of one idea."""

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.findings import ROOT, Finding, Source, project_files, read_sources, report

MACHINE = "libs/machine/perdure_machine/"
MAX_LINES = 500
COUNTED = (".py", ".pyi", ".sql", ".proto", ".sh")
GENERATED = ("migrations/schema.sql",)

# Whole modules are barred by import-linter; these are calls of what a pure function may import.
IMPURE_CALLS = {
    "datetime.now",
    "datetime.utcnow",
    "datetime.today",
    "date.today",
    "uuid.uuid1",
    "uuid.uuid4",
    "uuid1",
    "uuid4",
    "open",
    "print",
    "input",
}
TEST_CALLS = {
    "time.sleep": "a test does not sleep: wait for an event or with the bounded await helper",
    "asyncio.sleep": "a test does not sleep: wait for an event or with the bounded await helper",
    "pytest.skip": "a test is not skipped: it says what it needs, or is marked long",
    "pytest.mark.skip": "a test is not skipped: it says what it needs, or is marked long",
    "pytest.mark.skipif": "a test is not skipped: it says what it needs, or is marked long",
    "pytest.mark.xfail": "a test is not expected to fail: fix it or state the limit in the docs",
}


def impure_calls(source: Source) -> Iterator[Finding]:
    """Yield what the machine takes from the world; clock, ids and random come in the event."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call):
            name = dotted(node.func)
            if name in IMPURE_CALLS or name.removeprefix("datetime.") in IMPURE_CALLS:
                yield Finding(source.path, node.lineno, f"the machine is pure: {name}()")


def habits_of_tests(source: Source) -> Iterator[Finding]:
    """Yield sleeps, skips and expected failures in a test."""
    for node in ast.walk(source.tree):
        for name in names_used(node):
            if name in TEST_CALLS:
                line = getattr(node, "lineno", 1)
                yield Finding(source.path, line, f"{name}: {TEST_CALLS[name]}")


def names_used(node: ast.AST) -> Iterator[str]:
    """Yield the dotted names that a node uses or imports."""
    if isinstance(node, ast.Attribute):
        yield dotted(node)
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_test(path: str) -> bool:
    """Tell whether a file holds tests; a benchmark paces its load and looks rarely on purpose."""
    return path.startswith("tests/") and not path.startswith("tests/bench/")


def dotted(node: ast.expr) -> str:
    """Return `a.b.c` of nested attributes, with an empty head when that is no name."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attribute):
            return f"{dotted(value)}.{attribute}"
    return ""


def long_files(paths: Sequence[str], root: Path = ROOT) -> Iterator[Finding]:
    """Yield files that hold more than one idea can need."""
    for path in paths:
        if path.endswith(COUNTED) and path not in GENERATED:
            lines = (root / path).read_bytes().count(b"\n")
            if lines > MAX_LINES:
                yield Finding(path, lines, f"{lines} lines: a file has at most {MAX_LINES}")


def main() -> int:
    """Lint the repository."""
    paths = project_files()
    findings = list(long_files(paths))
    for source in read_sources(path for path in paths if path.startswith(MACHINE)):
        findings.extend(impure_calls(source))
    for source in read_sources(path for path in paths if is_test(path)):
        findings.extend(habits_of_tests(source))
    return report("code-rules", findings, f"{len(paths)} files")


if __name__ == "__main__":
    sys.exit(main())
