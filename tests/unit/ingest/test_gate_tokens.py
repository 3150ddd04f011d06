"""How long a token that was found good is taken for it without another look."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, cast

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from perdure_ingest.config import IngestConfig
from perdure_ingest.gate.jwks import GOOD_FOR
from perdure_ingest.gate.tokens import LEEWAY, Tokens
from perdure_runtime.clock import FakeClock
from perdure_runtime.errors import Unauthenticated

ISSUER, AUDIENCE = "https://id.example.org", "perdure"
CACHE = 60.0


def publish(file: Path, key: ec.EllipticCurvePrivateKey, key_id: str) -> None:
    public = jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    file.write_text(json.dumps({"keys": [{**public, "kid": key_id}]}))


def token(key: ec.EllipticCurvePrivateKey, seconds: float) -> str:
    claims = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "maya",
        "exp": time.time() + seconds,
        "roles": "viewer",
    }
    return jwt.encode(claims, key, algorithm="ES256", headers={"kid": "one"})


async def test_a_token_is_kept_no_longer_than_it_lasts(tmp_path: Path) -> None:
    file, clock = tmp_path / "jwks.json", FakeClock()
    key = ec.generate_private_key(ec.SECP256R1())
    publish(file, key, "one")
    config = IngestConfig(
        database_url="postgresql://x",
        jwt_issuer=ISSUER,
        jwt_audience=AUDIENCE,
        jwt_jwks=str(file),
        key_cache_seconds=CACHE,
    )
    tokens = Tokens(config, cast(Any, None), clock)
    lasting, short = token(key, 3600.0), token(key, 1.0)
    await tokens.principal(lasting)
    await clock.advance(GOOD_FOR - CACHE / 2)
    await tokens.principal(lasting)
    await tokens.principal(short)
    # Whoever looks again finds that the key is withdrawn, so it shows who does.
    publish(file, key, "two")
    await clock.advance(LEEWAY + CACHE / 2)
    assert (await tokens.principal(lasting)).actor == "maya (token)"
    with pytest.raises(Unauthenticated):
        await tokens.principal(short)
