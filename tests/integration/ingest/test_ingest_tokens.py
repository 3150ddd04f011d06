"""Tokens of an identity provider at a real ingest, whose JWKS is a file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from perdure import Client, PerdureApiError
from perdure_store.members import put_member
from perdure_testkit.database import Database

ISSUER = "https://id.example.org"
AUDIENCE = "perdure"

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def jwks(**keys: rsa.RSAPrivateKey) -> str:
    """The public parts of keys, by id."""
    listed = [
        {
            **jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True),
            "kid": key_id,
            "alg": "RS256",
        }
        for key_id, key in keys.items()
    ]
    return json.dumps({"keys": listed})


def token(
    key: rsa.RSAPrivateKey = KEY, *, kid: str = "one", algorithm: str = "RS256", **claims: Any
) -> str:
    """A token that is good but for what `claims` say; None leaves a claim out."""
    usual = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "maya@acme.example",
        "exp": time.time() + 300,
        "roles": ["viewer"],
    }
    told = {name: value for name, value in (usual | claims).items() if value is not None}
    return jwt.encode(told, key, algorithm=algorithm, headers={"kid": kid})


@pytest.fixture
def config_changes(tmp_path: Path) -> dict[str, Any]:
    file = tmp_path / "jwks.json"
    file.write_text(jwks(one=KEY))
    return {
        "jwt_issuer": ISSUER,
        "jwt_audience": AUDIENCE,
        "jwt_jwks": str(file),
        "jwt_org_claim": "org",
        "jwt_roles": ("staff=operator", "viewer=viewer"),
    }


async def call(address: str, credential: str) -> str:
    """List the runs; return why that was refused, empty if it was not."""
    async with Client(address, api_key=credential, attempts=1) as client:
        try:
            _ = [run async for run in client.list_runs()]
        except PerdureApiError as refusal:
            return f"{refusal.reason}: {refusal.message}"
    return ""


async def test_a_good_token_acts_for_the_org_that_it_names(
    address: str, coordinator: Any, rows: Any
) -> None:
    foreign = str(await rows.waiting_run())
    credential = token(org="acme", roles=["staff", "else"])
    async with Client(address, api_key=credential) as client:
        assert [run async for run in client.list_runs()] == []
        with pytest.raises(PerdureApiError) as refused:
            await client.get_run(foreign)
        await client.start_run("w")
    assert refused.value.reason == "RUN_NOT_FOUND"
    assert [item.org for item in coordinator.items] == ["acme"]


async def test_a_token_does_what_its_roles_allow(address: str) -> None:
    async with Client(address, api_key=token(org="default", roles="viewer")) as client:
        with pytest.raises(PerdureApiError) as refused:
            await client.start_run("w")
    assert refused.value.reason == "PERMISSION_MISSING"


async def test_an_api_key_goes_on_beside_tokens(address: str, api_key: str) -> None:
    assert await call(address, api_key) == ""
    assert (await call(address, "pdr_short")).startswith("KEY_INVALID")


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": time.time() - 86_400},
        {"nbf": time.time() + 86_400},
        {"iss": "https://other.example.org"},
        {"aud": "else"},
        {"exp": None},
        {"sub": None},
        {"sub": "x" * 201},
        {"org": None},
        {"org": 7},
        {"roles": ["nobody"]},
        {"roles": {"viewer": True}},
    ],
    ids=lambda claims: next(iter(claims)) + ("" if next(iter(claims.values())) else " missing"),
)
async def test_a_token_that_is_not_for_here_is_refused(
    address: str, claims: dict[str, Any]
) -> None:
    refusal = await call(address, token(**({"org": "default"} | claims)))
    assert refusal.startswith("CREDENTIAL_INVALID")


async def test_a_token_of_another_signer_or_a_weaker_signature_is_refused(address: str) -> None:
    unsigned = jwt.encode({"sub": "maya"}, "", algorithm="none", headers={"kid": "one"})
    shared = jwt.encode({"sub": "maya"}, "secret" * 8, algorithm="HS256", headers={"kid": "one"})
    forged = [
        token(OTHER, org="default"),
        token(OTHER, kid="two", org="default"),
        token(org="default", algorithm="RS512"),
        unsigned,
        shared,
        "a.b.c",
    ]
    refusals = [await call(address, each) for each in forged]
    assert [refusal.partition(":")[0] for refusal in refusals] == ["CREDENTIAL_INVALID"] * 6


async def test_a_member_s_token_without_a_role_has_those_of_the_member(
    address: str, database: Database
) -> None:
    connection: asyncpg.Connection = await database.connect()
    mine = token(org="default", roles=None, sub="maya")
    assert (await call(address, mine)).startswith("CREDENTIAL_INVALID")
    await put_member(connection, "default", "maya", ["viewer"], by="tests")
    assert await call(address, mine) == ""
    assert (await call(address, token(org="acme", roles=None, sub="maya"))) != ""


async def test_bytes_that_no_token_has_are_refused_at_the_http_door(http_url: str) -> None:
    async with httpx.AsyncClient(base_url=http_url, timeout=20.0) as web:
        answer = await web.get("/v1/runs", headers={b"authorization": b"Bearer \xe9.b.c"})
    assert answer.status_code == 401, answer.text
    assert answer.json()["details"][0]["reason"] == "CREDENTIAL_INVALID"
