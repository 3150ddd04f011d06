"""Writes docs/errors/README.md: `python -m perdure_runtime.error_reference`, into that file."""

from __future__ import annotations

from collections.abc import Iterator

from perdure_runtime.reasons import Reason

_HEAD = """# Error reasons

One page per reason. A reason travels as `google.rpc.ErrorInfo.reason` with the domain
`perdure.dev`, over gRPC in the trailer `grpc-status-details-bin`, over HTTP in the body. It is
stable over releases, message texts are not. *Waiting helps* says whether the same request may
succeed later though its sender changes nothing; the answer then has `google.rpc.RetryInfo`, with
this wait or one that suits the moment. `google.rpc.BadRequest` lists everything wrong with a
request at once.

This page is written from the table in `libs/runtime/perdure_runtime/reasons.py`, by
`python -m perdure_runtime.error_reference`. A new reason is a row there and a page here; tests
prove that both agree, and that each reason is raised with the code of its row.

| reason | gRPC code | HTTP | waiting helps | meaning |
|---|---|---|---|---|
"""

_TAIL = """
## What has no reason

Where no program of Perdure had the request in hand, there are no details and the code alone speaks.
Our clients take it so:

| code | what happened | read as |
|---|---|---|
"""

_PLAIN = (
    (
        "RESOURCE_EXHAUSTED, `larger than max` in its text",
        "the message is larger than 4 MiB, and the transport does not read it",
        Reason.PAYLOAD_TOO_LARGE,
    ),
    ("RESOURCE_EXHAUSTED", "more calls at once than it can even refuse", Reason.RATE_LIMITED),
    (
        "UNAVAILABLE",
        "no connection, or it broke; the Python client says `NOT_REACHED`",
        Reason.PEER_UNAVAILABLE,
    ),
    ("CANCELLED", "the caller, or a proxy, ended the call", Reason.CALL_CANCELLED),
    ("DEADLINE_EXCEEDED", "the caller stopped waiting", Reason.DEADLINE_EXCEEDED),
    ("UNAUTHENTICATED", "something before Perdure refused", Reason.CREDENTIAL_INVALID),
    ("PERMISSION_DENIED", "something before Perdure refused", Reason.PERMISSION_MISSING),
)


def page() -> str:
    """Return the page."""
    return "".join((_HEAD, *_rows(), _TAIL, *_plain_rows()))


def _rows() -> Iterator[str]:
    for one in Reason:
        waiting = "no" if one.wait is None else f"yes, {one.wait:g} s"
        yield f"| [{one}]({one}.md) | {one.code} | {one.code.http} | {waiting} | {one.doc} |\n"


def _plain_rows() -> Iterator[str]:
    for code, happened, reason in _PLAIN:
        yield f"| {code} | {happened} | [{reason}]({reason}.md) |\n"


if __name__ == "__main__":
    print(page(), end="")
