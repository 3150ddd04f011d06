"""Pages: one row more is read than is shown, and a page also ends when it has grown large."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from google.protobuf.message import Message

from perdure_ingest import limits

Row = TypeVar("Row")
MessageT = TypeVar("MessageT", bound=Message)


@dataclass(frozen=True, slots=True)
class Page(Generic[Row, MessageT]):
    """What fits; `last` is the row after which the next page begins, None if there is none."""

    messages: tuple[MessageT, ...]
    last: Row | None


def fill_page(
    rows: Sequence[Row], size: int, view: Callable[[Row], MessageT]
) -> Page[Row, MessageT]:
    """Show at most `size` rows and `MAX_PAGE_BYTES`, but at least one.

    `rows` are up to `size` + 1: the one too many tells that there is more.
    """
    messages: list[MessageT] = []
    total = 0
    for row in rows[:size]:
        message = view(row)
        total += message.ByteSize()
        if messages and total > limits.MAX_PAGE_BYTES:
            break
        messages.append(message)
    has_more = len(rows) > len(messages)
    return Page(tuple(messages), rows[len(messages) - 1] if has_more else None)
