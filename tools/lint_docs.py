"""Each folder has its README, each page its index, each link its target, each named test exists."""

import re
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path, PurePosixPath

from tools.findings import ROOT, Finding, project_files, report

INDEX = "README.md"
MEMBER_PARENTS = ("libs", "services")
DOCUMENTED_TO_SECOND_LEVEL = ("libs", "services", "tests", "docs", "deploy", "examples")
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
TEST_NAME = re.compile(r"\btest_\w+")
TEST_DEFINITION = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def missing_readmes(paths: Sequence[str]) -> Iterator[Finding]:
    """Yield the top folders, members and kinds of tests and docs that have no README."""
    present = set(paths)
    for folder in sorted(folders_to_explain(paths)):
        if f"{folder}/README.md" not in present:
            yield Finding(folder, 1, "has no README.md that says what belongs in it")


def unlisted_pages(folder: str, index: str, paths: Sequence[str]) -> Iterator[Finding]:
    """Yield the pages beside an index that it does not link: nobody finds them."""
    linked = set(LINK.findall(index))
    for path in map(PurePosixPath, paths):
        is_page = str(path.parent) == folder and path.name != INDEX
        if is_page and path.suffix == ".md" and path.name not in linked:
            yield Finding(f"{folder}/{INDEX}", 1, f"does not link {path.name}")


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


def unknown_tests(path: str, text: str, known: Collection[str]) -> Iterator[Finding]:
    """Yield the tests that a page names and that are not there: a claim without its proof."""
    for number, line in enumerate(text.splitlines(), 1):
        for name in TEST_NAME.findall(line):
            if name not in known:
                yield Finding(path, number, f"names {name}, which is no test")


def known_tests(paths: Sequence[str], root: Path = ROOT) -> set[str]:
    """Return the names of all test functions and of the files that hold them."""
    files = [path for path in paths if path.startswith("tests/") and path.endswith(".py")]
    names = {PurePosixPath(path).stem for path in files}
    for path in files:
        names.update(TEST_DEFINITION.findall((root / path).read_text()))
    return names


def main() -> int:
    """Lint the repository."""
    paths = project_files()
    pages = [path for path in paths if path.endswith(".md")]
    tests = known_tests(paths)
    findings = list(missing_readmes(paths))
    for page in pages:
        text = (ROOT / page).read_text()
        findings.extend(broken_links(page, text))
        if page.startswith("docs/"):
            findings.extend(unknown_tests(page, text, tests))
        if page.startswith("docs/") and page.endswith(f"/{INDEX}"):
            findings.extend(unlisted_pages(str(PurePosixPath(page).parent), text, pages))
    return report("docs-check", findings, f"{len(pages)} pages")


if __name__ == "__main__":
    sys.exit(main())
