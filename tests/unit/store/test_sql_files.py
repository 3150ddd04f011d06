"""Named queries are read from files, or refused by file and name."""

from pathlib import Path

import pytest
from perdure_store.sql import QUERIES, load, lookup, sql

ONE = "-- name: lock_runs\n-- Locks runs in id order.\nSELECT 1;\n"


def write(folder: Path, **files: str) -> Path:
    for stem, text in files.items():
        (folder / f"{stem}.sql").write_text(text)
    return folder


def test_a_query_is_known_by_its_file_and_name(tmp_path: Path) -> None:
    queries = load(write(tmp_path, runs=ONE, steps=ONE))

    assert set(queries) == {"runs.lock_runs", "steps.lock_runs"}
    assert queries["runs.lock_runs"].description == "Locks runs in id order."
    assert queries["runs.lock_runs"].text == "-- runs.lock_runs\nSELECT 1"


def test_a_file_holds_several_queries_under_a_heading(tmp_path: Path) -> None:
    second = "-- name: count\n-- Counts.\n-- a note\nSELECT 2\n"
    queries = load(write(tmp_path, runs=f"-- About runs.\n\n{ONE}\n{second}"))

    assert lookup(queries, "runs.lock_runs").endswith("SELECT 1")
    assert lookup(queries, "runs.count") == "-- runs.count\n-- a note\nSELECT 2"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (ONE + ONE, r"runs\.sql: the query runs\.lock_runs stands twice"),
        ("-- name: lock_runs\nSELECT 1\n", r"runs\.sql: lock_runs lacks the line"),
        ("-- name: lock_runs\n--\nSELECT 1\n", r"runs\.sql: lock_runs lacks the line"),
        ("-- name: lock_runs\n", r"runs\.sql: lock_runs lacks the line"),
        ("-- name: lock_runs\n-- Locks.\n;\n", r"runs\.sql: lock_runs has no text"),
        ("-- name: LockRuns\n-- Locks.\nSELECT 1\n", r"runs\.sql: 'LockRuns' is no query name"),
        ("-- name:\n-- Locks.\nSELECT 1\n", r"runs\.sql: '' is no query name"),
        ("SELECT 1;\n" + ONE, r"runs\.sql: text stands before"),
        ("-- nothing here\n", r"runs\.sql: there is no query"),
    ],
)
def test_a_malformed_file_is_refused_by_name(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        load(write(tmp_path, runs=text))


def test_an_unknown_name_is_refused_with_the_nearest(tmp_path: Path) -> None:
    queries = load(write(tmp_path, runs=ONE))

    with pytest.raises(KeyError, match=r"no query runs\.lock_run; did you mean runs\.lock_runs\?"):
        lookup(queries, "runs.lock_run")
    with pytest.raises(KeyError, match=r"no query zzz'?$"):
        lookup({}, "zzz")


def test_every_query_of_the_store_can_be_asked_for() -> None:
    assert QUERIES
    for name, query in QUERIES.items():
        assert sql(name) == query.text
