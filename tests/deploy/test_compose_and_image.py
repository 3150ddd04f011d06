"""The compose file and the image say the same as the chart."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tools.findings import ROOT
from tools.render_chart import Manifest

Chart = Callable[..., list[Manifest]]
SERVICES = ("ingest", "coordinator", "relay", "worker", "timer", "sweeper")
# On one machine the defaults do; peers are found by their names there.
CHOSEN_BY_CHART = re.compile(
    r"PERDURE_(OPS_PORT|(?:GRPC|HTTP)_PORT|DRAIN_SECONDS|LOG_LEVEL|PAGE_TOKEN_KEY|TASK_TOKEN_KEYS|TLS_\w+"
    r"|INGEST_AUTH|WORKER_AUTH|INGEST_INSTALLATION_ORG)"
)


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
    return read


def test_compose_starts_what_the_chart_starts(compose: dict[str, Any], chart: Chart) -> None:
    started = {
        manifest["metadata"]["labels"]["app.kubernetes.io/component"]: container
        for manifest in chart()
        if manifest["kind"] in {"Deployment", "Job"}
        for container in manifest["spec"]["template"]["spec"]["containers"]
    }
    assert started.keys() == {*SERVICES, "migrate"}
    for name, container in started.items():
        service = compose["services"][name]
        assert service["command"] == container["args"]
        expected = {entry["name"] for entry in container["env"]}
        assert service["environment"].keys() == {
            variable for variable in expected if not CHOSEN_BY_CHART.fullmatch(variable)
        }


def test_only_loopback_ports_are_published(compose: dict[str, Any]) -> None:
    published = [
        port for service in compose["services"].values() for port in service.get("ports", [])
    ]
    assert published == ["127.0.0.1:7400:7400", "127.0.0.1:7401:7401", "127.0.0.1:7420:7420"]


def test_compose_has_no_password_that_works(compose: dict[str, Any]) -> None:
    password = compose["services"]["postgres"]["environment"]["POSTGRES_PASSWORD"]
    assert password.startswith("${PERDURE_PASSWORD:?")


def test_each_role_of_the_compose_file_gets_its_password(compose: dict[str, Any]) -> None:
    script = (ROOT / "deploy" / "compose" / "roles.sh").read_text()
    listed = re.search(r"for service in ([a-z ]+);", script)
    assert listed is not None
    urls = re.findall(r"postgresql://perdure_(\w+):", str(compose))
    assert set(listed.group(1).split()) == set(urls) == set(SERVICES) - {"worker"}


def test_the_image_runs_as_the_user_that_the_chart_expects(chart: Chart) -> None:
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text()
    pod = next(manifest for manifest in chart() if manifest["kind"] == "Deployment")
    user = pod["spec"]["template"]["spec"]["securityContext"]["runAsUser"]
    assert f"\nUSER {user}:{user}\n" in dockerfile


def test_the_image_has_every_service_and_no_testkit() -> None:
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text()
    packages = re.findall(r"--package (\S+)", dockerfile)
    assert packages == [*(f"perdure-{name}" for name in SERVICES), "perdure"]
    assert "rm -rf libs/stack libs/testkit" in dockerfile
