"""No value of the chart is dead: changing any one of them changes what is rendered."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from tools.render_chart import CHART, Manifest

Chart = Callable[..., list[Manifest]]

# What makes every template branch that hides a value stand open.
OPEN = [
    'migrations.mode="job"',
    'image.digest=""',
    "defaults.autoscaling.enabled=true",
    "services.relay.autoscaling.enabled=false",
    'egress.caConfigMap="authorities"',
    'auth.jwt={"issuer": "https://i", "audience": "perdure", "jwks": "https://i/keys"}',
]
# Values whose type does not tell another valid one.
OTHERS = {
    "auth.mode": "off",
    "auth.jwt.jwks": "https://other/keys",
    "auth.jwt.roles": {"admins": "admin"},
    "tls.mode": "off",
    "image.digest": "sha256:" + "1" * 64,
    "image.pullPolicy": "Always",
    "migrations.mode": "external",
    "telemetry.logFormat": "console",
    "telemetry.logLevel": "debug",
    "defaults.serviceAccount.create": False,
    "defaults.autoscaling.enabled": False,
    "egress.allow": ["10.1.0.0/16"],
}


def leaves(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each dotted key with its value; an empty map is a leaf, `behavior` and the like too."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        is_open_map = name.endswith(("behavior", "resources", "ecurityContext"))
        if isinstance(value, dict) and value and not is_open_map:
            yield from leaves(value, f"{name}.")
        else:
            yield name, value


def another(name: str, value: Any) -> Any:
    """Return a valid value that differs."""
    match value:
        case _ if name in OTHERS:
            return OTHERS[name]
        case bool():
            return not value
        case int():
            return value + 1
        case list() if name == "workers":
            return [*value, {"name": "z", "queues": ["z:z"], "slots": 1}]
        case str():
            return f"{value}z"
        case list():
            return [*value, {"name": "z"}]
    return {**value, "z": "z"}


VALUES = dict(leaves(yaml.safe_load((CHART / "values.yaml").read_text())))
LIVE = sorted(name for name in VALUES if VALUES[name] != {} or not name.startswith("services."))


@pytest.fixture(scope="module")
def unchanged(chart: Chart) -> list[Manifest]:
    return chart(*OPEN)


@pytest.mark.parametrize("name", LIVE)
def test_a_value_changes_what_is_rendered(
    chart: Chart, unchanged: list[Manifest], name: str
) -> None:
    setting = f"{name}={json.dumps(another(name, VALUES[name]))}"
    assert chart(*OPEN, setting) != unchanged
