"""Each folder says in a README what belongs in it; each relative link leads somewhere."""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from tools.findings import ROOT, Finding, project_files, report

MEMBER_PARENTS = ("libs", "services")
DOCUMENTED_TO_SECOND_LEVEL = ("libs", "services", "tests", "docs", "deploy", "examples")
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def missing_readmes(paths: Sequence[str]) -> Iterator[Finding]:
    """Yield the top folders, members and kinds of tests and docs that have no README."""
    present = set(paths)
    for folder in sorted(folders_to_explain(paths)):
        if f"{folder}/README.md" not in present:
            yield Finding(folder, 1, "has no README.md that says what belongs in it")


def folders_to_explain(paths: Sequence[str]) -> set[str]:
    """Return the top folders, and the second level of those that are collections."""
    folders: set[str] = set()
    for path in paths:
        parts = PurePosixPath(path).parts[:-1]
        if not parts or parts[0].startswith("."):
            continue
        if parts[0] not in MEMBER_PARENTS:
            folders.add(parts[0])
        if len(parts) > 1 and parts[0] in DOCUMENTED_TO_SECOND_LEVEL:
            folders.add("/".join(parts[:2]))
    return folders


def broken_links(path: str, text: str, root: Path = ROOT) -> Iterator[Finding]:
    """Yield relative links of one page to files that are not there."""
    prose = FENCE.sub(lambda block: "\n" * block.group().count("\n"), text)
    for found in LINK.finditer(prose):
        target = found.group(1)
        if re.match(r"[a-z]+:", target):
            continue
        if not (root / path).parent.joinpath(target).exists():
            line = prose.count("\n", 0, found.start()) + 1
            yield Finding(path, line, f"links to {target}, which is not there")


def main() -> int:
    """Lint the repository."""
    paths = project_files()
    pages = [path for path in paths if path.endswith(".md")]
    findings = list(missing_readmes(paths))
    for page in pages:
        findings.extend(broken_links(page, (ROOT / page).read_text()))
    return report("docs-check", findings, f"{len(pages)} pages")


if __name__ == "__main__":
    sys.exit(main())
