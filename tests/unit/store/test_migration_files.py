"""Migration files: names, order, phases and statements, read without a database."""

from pathlib import Path

import pytest
from perdure_runtime.errors import FailedPrecondition
from perdure_store.migration_files import (
    Migration,
    Phase,
    bundled_migrations,
    read_migrations,
    select,
    statements,
)

LAST_RELEASED = 6
"""The newest migration of release 0.1.0."""


def write(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).write_text("SELECT 1;\n")
    return folder


def pending(folder: Path, *names: str) -> tuple[Migration, ...]:
    return read_migrations(write(folder, *names))


def chosen(found: tuple[Migration, ...], phase: Phase) -> list[int]:
    return [migration.version for migration in select(found, phase)]


def test_files_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    found = pending(tmp_path, "0010_pre_b.sql", "0002_post_a.sql", "schema.sql", "README.md")

    assert [(m.version, m.phase) for m in found] == [(2, Phase.POST), (10, Phase.PRE)]


@pytest.mark.parametrize(
    "name", ["1_pre_a.sql", "0001_a.sql", "0001_pre_.sql", "0001_pre_A.sql", "0001_mid_a.sql"]
)
def test_a_malformed_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(FailedPrecondition, match=f"where: {name}\n.*do this: name it like"):
        pending(tmp_path, name)


def test_a_number_that_stands_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FailedPrecondition, match=r"0003_post_b\.sql, 0003_pre_a\.sql"):
        pending(tmp_path, "0003_pre_a.sql", "0003_post_b.sql")


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FailedPrecondition, match="no such folder"):
        read_migrations(tmp_path / "absent")


def test_pre_ends_at_the_last_pre_file_and_takes_an_earlier_release_along(tmp_path: Path) -> None:
    found = pending(
        tmp_path, "0001_pre_a.sql", "0002_post_b.sql", "0003_pre_c.sql", "0004_post_d.sql"
    )

    assert chosen(found, Phase.PRE) == [1, 2, 3]
    assert chosen(found, Phase.ALL) == [1, 2, 3, 4]


def test_post_comes_only_after_pre(tmp_path: Path) -> None:
    found = pending(tmp_path, "0001_pre_a.sql", "0002_post_b.sql")

    with pytest.raises(FailedPrecondition, match="--phase pre first"):
        select(found, Phase.POST)
    assert chosen(found[1:], Phase.POST) == [2]
    assert chosen((), Phase.POST) == []


def test_a_first_line_takes_a_file_out_of_its_transaction(tmp_path: Path) -> None:
    (tmp_path / "0001_pre_a.sql").write_text("-- no transaction\nSELECT 1;\n")
    (tmp_path / "0002_pre_b.sql").write_text("-- no transactions here\nSELECT 1;\n")
    first, second = read_migrations(tmp_path)

    assert not first.in_transaction
    assert second.in_transaction


def test_statements_are_parted_only_where_one_ends() -> None:
    text = """
        -- a comment; with a semicolon
        CREATE INDEX CONCURRENTLY IF NOT EXISTS "odd;name" ON t (a); -- after; it
        INSERT INTO t VALUES ('it''s; fine', $1, 5 - 3);
        DO $body$ BEGIN PERFORM 1; END $body$;
        SELECT $$;$$
    """

    assert statements(text) == [
        'CREATE INDEX CONCURRENTLY IF NOT EXISTS "odd;name" ON t (a)',
        "INSERT INTO t VALUES ('it''s; fine', $1, 5 - 3)",
        "DO $body$ BEGIN PERFORM 1; END $body$",
        "SELECT $$;$$",
    ]


def test_what_the_release_before_does_not_bear_comes_after_all_that_it_does() -> None:
    """Else the phase before the rollout would take it along, as what an earlier rollout left."""
    unreleased = [m for m in read_migrations(bundled_migrations()) if m.version > LAST_RELEASED]
    phases = [migration.phase for migration in unreleased]
    assert phases == sorted(phases, key=[Phase.PRE, Phase.POST].index)
    assert Phase.POST not in {m.phase for m in select(unreleased, Phase.PRE)}
