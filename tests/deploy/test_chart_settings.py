"""What the chart sets is what the services read: a variable that none reads is refused at start."""

from collections.abc import Callable

import pytest
from perdure_runtime.config import load, registered
from perdure_runtime.config_groups import ServiceConfig
from perdure_worker.config import WorkerConfig

from tools.render_chart import Manifest

Chart = Callable[..., list[Manifest]]
SECRETS = {
    "PERDURE_DATABASE_URL": "postgresql://role@host/perdure",
    "PERDURE_DATABASE_DIRECT_URL": "postgresql://role@host/perdure",
    "PERDURE_REDIS_URL": "redis://host",
    "PERDURE_PAGE_TOKEN_KEY": "0123456789abcdef",
    "PERDURE_TASK_TOKEN_KEYS": "0123456789abcdef,fedcba9876543210",
}
SERVICES = ("ingest", "coordinator", "relay", "worker", "timer", "sweeper")


def environment_of(deployment: Manifest) -> dict[str, str]:
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    return {
        entry["name"]: entry["value"] if "value" in entry else SECRETS[entry["name"]]
        for entry in container["env"]
    }


@pytest.mark.parametrize("values", ["minimal", "autoscaled", "external"])
@pytest.mark.parametrize("service", SERVICES)
def test_a_service_starts_with_what_the_chart_sets(chart: Chart, service: str, values: str) -> None:
    deployment = next(
        manifest
        for manifest in chart(values=values)
        if manifest["kind"] == "Deployment" and manifest["metadata"]["name"].endswith(service)
    )
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    config = load(registered()[service], environment_of(deployment), known=())
    assert isinstance(config, ServiceConfig)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert config.ops_port == ports["ops"]
    assert getattr(config, "grpc_port", None) == ports.get("grpc")
    assert getattr(config, "http_port", None) == ports.get("http")
    assert config.host == "0.0.0.0"
    assert config.drain_seconds > 0


def test_a_worker_of_its_own_serves_its_own_queues(chart: Chart) -> None:
    told = {
        manifest["metadata"]["name"]: load(WorkerConfig, environment_of(manifest), known=())
        for manifest in chart(values="autoscaled")
        if manifest["kind"] == "Deployment" and "-worker" in manifest["metadata"]["name"]
    }
    served = {name: (config.queues, config.slots) for name, config in told.items()}
    assert served == {
        "perdure-worker": (("io:shared", "io:default", "slow:shared", "slow:default"), 16),
        "perdure-worker-reports": (("reports:default", "reports:shared"), 4),
        "perdure-worker-mail": (("mail:default",), 32),
    }
