"""The form of an API key, and what of it is kept."""

from __future__ import annotations

import hashlib

import pytest
from perdure_runtime.api_keys import DIGEST_BYTES, bearer, make_key, read_key

KEY = "pdr_abcdefghijkl_" + 52 * "a"


def test_a_key_is_read_as_it_was_made_and_no_two_are_alike() -> None:
    made, other = make_key(), make_key()
    presented = read_key(made.text)
    assert presented is not None
    assert (presented.prefix, presented.digest) == (made.prefix, made.digest)
    assert (made.prefix, made.digest) != (other.prefix, other.digest)


def test_what_is_kept_is_the_sha_256_of_256_random_bits() -> None:
    made = make_key()
    secret = made.text.rpartition("_")[2]
    assert len(secret) * 5 >= 256
    assert made.digest == hashlib.sha256(secret.encode()).digest()
    assert len(made.digest) == DIGEST_BYTES


def test_neither_key_nor_digest_is_printed_by_accident() -> None:
    made = make_key()
    assert made.text.rpartition("_")[2] not in repr(made)
    assert repr(made.digest) not in repr(made)
    assert repr(made.digest) not in repr(read_key(made.text))


@pytest.mark.parametrize(
    "text", ["", "pdr_", "pdr_abc_def", "eyJhbGciOi.J9.x", KEY[:-1], KEY + "a"]
)
def test_what_has_not_the_form_of_a_key_is_none(text: str) -> None:
    assert read_key(text) is None


@pytest.mark.parametrize(
    ("header", "credential"),
    [
        (None, None),
        ("", None),
        ("Basic abc", None),
        ("Bearer ", None),
        ("Bearer abc", "abc"),
        ("bearer  abc ", "abc"),
    ],
)
def test_a_credential_stands_after_bearer(header: str | None, credential: str | None) -> None:
    assert bearer(header) == credential
