"""The docs lint asks for READMEs, follows links and looks for the tests that pages name."""

from pathlib import Path

from tools.lint_docs import (
    broken_links,
    known_tests,
    missing_readmes,
    unknown_tests,
    unlisted_pages,
)


def test_members_kinds_and_top_folders_need_a_readme() -> None:
    paths = ["libs/store/x.py", "services/relay/README.md", "tests/unit/a/test_x.py", "tools/x.py"]
    found = [finding.path for finding in missing_readmes(paths)]
    assert found == ["libs/store", "tests", "tests/unit", "tools"]


def test_hidden_folders_and_deep_folders_need_none() -> None:
    assert list(missing_readmes([".ci/run", "Makefile"])) == []
    assert len(list(missing_readmes(["migrations/README.md", "migrations/a/b.sql"]))) == 0


def test_a_link_that_leads_nowhere_is_found_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("x")
    text = "[a](there.md#part) [b](https://example.org/x) [c](#here)\n\n[d](gone.md)\n"
    found = list(broken_links("page.md", text, tmp_path))
    assert [(finding.line, finding.message) for finding in found] == [
        (3, "links to gone.md, which is not there")
    ]


def test_a_page_that_its_index_does_not_link_is_found() -> None:
    pages = ["docs/a/README.md", "docs/a/here.md", "docs/a/lost.md", "docs/a/b/deep.md"]
    found = list(unlisted_pages("docs/a", "[here](here.md#part)", pages))
    assert [(finding.path, finding.message) for finding in found] == [
        ("docs/a/README.md", "does not link lost.md")
    ]


def test_code_blocks_hold_no_links(tmp_path: Path) -> None:
    assert list(broken_links("page.md", "```\n[d](gone.md)\n```\n", tmp_path)) == []


def test_a_page_that_names_a_test_that_is_not_there_is_found_with_its_line() -> None:
    text = "proved by `test_here`\n\nand `test_gone` in `test_file.py`, not latest_news\n"
    found = list(unknown_tests("docs/page.md", text, {"test_here", "test_file"}))
    assert [(finding.line, finding.message) for finding in found] == [
        (3, "names test_gone, which is no test")
    ]


def test_tests_are_known_by_function_and_by_file(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    code = "async def test_a(x: int) -> None: ...\nclass T:\n    def test_b(self) -> None: ...\n"
    (tmp_path / "tests" / "test_c.py").write_text(code)
    assert known_tests(["tests/test_c.py", "libs/test_d.py"], tmp_path) == {
        "test_a", "test_b", "test_c",
    }  # fmt: skip
