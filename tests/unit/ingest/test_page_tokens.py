"""Page tokens: opaque, signed, bound to their query."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from perdure_contracts.v1.workflow_pb2 import Workflow
from perdure_ingest.page_tokens import PageTokens
from perdure_ingest.paging import fill_page
from perdure_runtime.errors import InvalidArgument, Reason

QUERY = ("ListRuns", "acme", "w", None, {"a": "b"}, datetime(2026, 1, 1, tzinfo=UTC))


@settings(deadline=None)
@given(st.text(st.characters(codec="utf-8")))
def test_a_token_gives_its_place_back(place: str) -> None:
    tokens = PageTokens("a key of the operator")
    assert tokens.read(QUERY, tokens.make(QUERY, place)) == place


def test_an_empty_token_is_the_first_page() -> None:
    assert PageTokens().read(QUERY, "") is None


@pytest.mark.parametrize(
    "query",
    [
        ("ListRuns", "other", *QUERY[2:]),
        ("GetRunHistory", *QUERY[1:]),
        (*QUERY[:4], {"a": "c"}, QUERY[5]),
        (*QUERY[:5], datetime(2026, 1, 2, tzinfo=UTC)),
        (*QUERY[:5], None),
    ],
)
def test_a_token_is_refused_for_another_query(query: Sequence[object]) -> None:
    tokens = PageTokens()
    with pytest.raises(InvalidArgument) as caught:
        tokens.read(query, tokens.make(QUERY, "place"))
    assert caught.value.reason == Reason.PAGE_TOKEN_INVALID
    assert [violation.field for violation in caught.value.violations] == ["page_token"]


@pytest.mark.parametrize("token", ["x", "!!!!", "\N{SNOWMAN}", "A" * 23, "AAAA" * 10])
def test_what_was_never_a_token_is_refused(token: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        PageTokens().read(QUERY, token)
    assert caught.value.reason == Reason.PAGE_TOKEN_INVALID


def test_replicas_with_one_key_take_each_others_tokens_and_no_others() -> None:
    key = "shared by all replicas"
    token = PageTokens(key).make(QUERY, "place")
    assert PageTokens(key).read(QUERY, token) == "place"
    for other in (PageTokens(), PageTokens("another key, of someone")):
        with pytest.raises(InvalidArgument):
            other.read(QUERY, token)


@pytest.mark.parametrize(
    ("rows", "size", "shown", "last"),
    [([], 2, 0, None), ([1], 2, 1, None), ([1, 2], 2, 2, None), ([1, 2, 3], 2, 2, 2)],
)
def test_a_page_knows_whether_there_is_more(
    rows: list[int], size: int, shown: int, last: int | None
) -> None:
    page = fill_page(rows, size, lambda row: Workflow(version=row))
    assert (len(page.messages), page.last) == (shown, last)


def test_f091_a_page_ends_early_but_holds_at_least_one() -> None:
    page = fill_page([1, 2, 3], 3, lambda row: Workflow(document=b"x" * 3_000_000))
    assert (len(page.messages), page.last) == (1, 1)
