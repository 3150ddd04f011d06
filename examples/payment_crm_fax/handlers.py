"""Thanks a customer by a letter and by points: two effects of one handler, each done once."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote

import perdure

KEPT_SECONDS = 24 * 3600.0
CALL_SECONDS = 10.0

handlers = perdure.Handlers()


@handlers.handler("thanks.send")
def send(given: dict[str, Any], ctx: perdure.HandlerContext) -> dict[str, Any]:
    """Send the letter, whose service honours keys; book the points, which can be looked up."""
    place, order = given["provider"], given["order"]

    def book(key: str) -> Any:
        return call(f"{place}/points", {"reference": key, "order": order})

    def find(key: str) -> perdure.Performed | perdure.NotPerformed:
        return look_up(f"{place}/points/{quote(key, safe='')}")

    letter = ctx.effect(
        "letter",
        lambda key: call(f"{place}/letters", {"order": order}, key=key),
        keep=KEPT_SECONDS,
        timeout=CALL_SECONDS,
        request=order,
        not_performed=(ConnectionRefusedError,),
    )
    points = ctx.effect("points", book, reconcile=find, timeout=CALL_SECONDS, request=order)
    return {"letter": letter["id"], "points": points["id"]}


def call(url: str, body: object, *, key: str = "") -> Any:
    """Post JSON and return the JSON that comes back."""
    headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key else {})
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=CALL_SECONDS) as answer:
        return json.load(answer)


def look_up(url: str) -> perdure.Performed | perdure.NotPerformed:
    """Ask whether a record is there."""
    try:
        with urllib.request.urlopen(url, timeout=CALL_SECONDS) as answer:
            return perdure.Performed(json.load(answer))
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return perdure.NotPerformed()
        raise
