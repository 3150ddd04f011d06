"""What the project's own lints share: which files they read and how they report."""

import ast
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One broken rule; `line` counts from 1."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


@dataclass(frozen=True, slots=True)
class Source:
    """A Python file with its syntax tree; `path` is relative to the repository, with slashes."""

    path: str
    tree: ast.Module


def project_files(root: Path = ROOT) -> list[str]:
    """Return the files that git tracks or would track, as paths relative to the repository."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    return sorted(name for name in set(listed.stdout.splitlines()) if (root / name).is_file())


def read_sources(paths: Iterable[str], root: Path = ROOT) -> list[Source]:
    """Parse the Python files among `paths`; SyntaxError if one does not parse."""
    return [
        Source(path, ast.parse((root / path).read_text(), path))
        for path in paths
        if path.endswith(".py")
    ]


def report(check: str, findings: Sequence[Finding], checked: str) -> int:
    """Print findings, or that all is well; return the exit status."""
    for finding in sorted(findings):
        print(finding, file=sys.stderr)
    verdict = f"{len(findings)} broken" if findings else f"ok ({checked})"
    print(f"{check}: {verdict}")
    return 1 if findings else 0
