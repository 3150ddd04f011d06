"""The handler of the guide on effects, and the tests that the guide shows, do what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "effects.md"


class Bank:
    def __init__(self) -> None:
        self.charged: list[str] = []

    def charge(self, card: str, cents: int, *, idempotency_key: str) -> dict[str, Any]:
        self.charged.append(idempotency_key)
        return {"id": f"ch_{len(self.charged)}", "cents": cents}


class Crm:
    def __init__(self) -> None:
        self.away = False
        self.contacts: dict[str, dict[str, str]] = {}

    def create(self, email: str, *, external_id: str) -> dict[str, str]:
        if self.away:
            raise ConnectionError
        return self.contacts.setdefault(external_id, {"id": "c_1", "email": email})

    def find(self, *, external_id: str) -> dict[str, str] | None:
        return self.contacts.get(external_id)


class Fax:
    def __init__(self) -> None:
        self.broken = False
        self.sent = 0

    def send(self, number: str, text: str) -> dict[str, int]:
        self.sent += 1
        if self.broken:
            raise ConnectionResetError
        return {"pages": 1}


@pytest.fixture
def guide() -> dict[str, Any]:
    order = {"card": "4242", "cents": 990, "email": "maya@example.com", "fax": "+44"}
    made: dict[str, Any] = {"bank": Bank(), "crm": Crm(), "fax": Fax(), "ORDER": order}
    for python in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL):
        exec(compile(python, str(GUIDE), "exec"), made)
    return made


def test_the_charge_is_made_once_although_the_crm_is_away(guide: dict[str, Any]) -> None:
    guide["test_the_charge_is_made_once_although_the_crm_is_away"]()
    assert len(guide["bank"].charged) == 1


def test_a_fax_of_which_nobody_knows_waits_for_a_person(guide: dict[str, Any]) -> None:
    guide["test_a_fax_of_which_nobody_knows_waits_for_a_person"]()
    assert guide["fax"].sent == 1
