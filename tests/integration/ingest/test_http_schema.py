"""The OpenAPI document is true: what it describes is answered as it describes, whatever is sent."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from perdure_ingest.app import Ingest
from perdure_ingest.http.description import description
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

FEW, MANY = 2, 30
"""Requests to each operation, of those that fit the document and of those that do not."""

NO_FAULTS = {"DEADLINE_EXCEEDED", "METHOD_UNKNOWN"}
"""Reasons of a 5xx that are none of ingest's: the scripted coordinator lacks methods."""


def without_a_fault(ctx: Any, response: Any, case: Any) -> None:
    if response.status_code >= 500:
        assert response.json()["details"][0]["reason"] in NO_FAULTS, response.text


CHECKS = [
    without_a_fault,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
SEED = 20301


def operations() -> list[Any]:
    schema = schemathesis.openapi.from_dict(json.loads(description()))
    found: list[Any] = list(schema.get_all_operations())
    return [each.ok() for each in found]


async def test_the_document_is_served_without_a_key(http_url: str) -> None:
    async with httpx.AsyncClient(base_url=http_url) as web:
        answer = await web.get("/openapi.json")
    assert answer.content == description()
    assert answer.headers["Content-Type"] == "application/json"


# The server, in this process too, draws at random while the strategies are at work.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize("requests", [FEW, pytest.param(MANY, marks=pytest.mark.long)])
async def test_every_operation_answers_as_the_document_says(
    ingest: Ingest, http_url: str, api_key: str, mode: GenerationMode, requests: int
) -> None:
    await asyncio.to_thread(_try_all, Door(http_url, api_key), mode, requests)
    assert ingest.is_started


@dataclass(frozen=True, slots=True)
class Door:
    """Where requests go, and what they present there."""

    url: str
    api_key: str


def _try_all(door: Door, mode: GenerationMode, requests: int) -> None:
    for operation in operations():
        _try(operation, door, mode, requests)


def _try(operation: Any, door: Door, mode: GenerationMode, requests: int) -> None:
    @seed(SEED)
    @settings(
        max_examples=requests,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def attempt(case: Any) -> None:
        presented = {"Authorization": f"Bearer {door.api_key}"}
        case.call_and_validate(base_url=door.url, headers=presented, checks=CHECKS, timeout=10)

    attempt()
