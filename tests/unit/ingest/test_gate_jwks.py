"""Where the public keys of an identity provider come from, and how often they are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from perdure_ingest.config import IngestConfig
from perdure_ingest.gate.jwks import AGAIN_AFTER, GOOD_FOR, Jwks
from perdure_runtime.clock import FakeClock
from perdure_runtime.errors import InvalidArgument, Unauthenticated, Unavailable


def published(*key_ids: str) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    public = jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return json.dumps({"keys": [{**public, "kid": key_id} for key_id in key_ids]})


def publish(file: Path, *key_ids: str) -> None:
    file.write_text(published(*key_ids))


def break_(file: Path) -> None:
    file.write_text("{broken")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "jwks.json"
    file.write_text(published("one"))
    return file


@pytest.fixture
def keys(file: Path, clock: FakeClock) -> Jwks:
    return Jwks(str(file), clock)


async def knows(keys: Jwks, key_id: str) -> bool:
    try:
        await keys.key(key_id)
    except Unauthenticated:
        return False
    return True


async def test_a_new_key_is_found_when_a_token_names_it(
    keys: Jwks, file: Path, clock: FakeClock
) -> None:
    assert [await knows(keys, "one"), await knows(keys, "two")] == [True, False]
    publish(file, "one", "two")
    assert not await knows(keys, "two")
    await clock.advance(AGAIN_AFTER)
    assert await knows(keys, "two")


async def test_a_withdrawn_key_is_trusted_no_longer_after_a_while(
    keys: Jwks, file: Path, clock: FakeClock
) -> None:
    assert await knows(keys, "one")
    publish(file, "two")
    assert await knows(keys, "one")
    await clock.advance(GOOD_FOR)
    assert [await knows(keys, "one"), await knows(keys, "two")] == [False, True]


async def test_while_the_place_is_away_what_was_read_goes_on(
    keys: Jwks, file: Path, clock: FakeClock
) -> None:
    assert await knows(keys, "one")
    break_(file)
    await clock.advance(GOOD_FOR)
    assert await knows(keys, "one")


async def test_a_place_that_was_never_read_is_trouble_that_passes(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        await Jwks(str(tmp_path / "none.json"), FakeClock()).key("one")


JWT = {"jwt_issuer": "https://id", "jwt_audience": "perdure", "jwt_jwks": "/keys.json"}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"jwt_audience": ""}, "jwt_audience"),
        ({"jwt_jwks": ""}, "jwt_jwks"),
        ({"jwt_jwks": "http://id/keys"}, "jwt_jwks"),
        ({"jwt_algorithms": ("RS256", "HS256")}, "jwt_algorithms"),
        ({"jwt_algorithms": ("none",)}, "jwt_algorithms"),
        ({"jwt_roles": ("staff=king",)}, "jwt_roles"),
    ],
)
def test_settings_that_would_let_anybody_in_are_refused(
    changes: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        IngestConfig(**({"database_url": "postgresql://x"} | JWT | changes))
    assert [violation.field for violation in caught.value.violations] == [field]
