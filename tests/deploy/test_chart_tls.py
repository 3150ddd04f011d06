"""TLS as the chart sets it up: on unless it is switched off, from cert-manager or from secrets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tools.render_chart import Manifest

Chart = Callable[..., list[Manifest]]
PROVING = {"ingest", "coordinator", "worker", "timer", "sweeper"}


def of_kind(manifests: list[Manifest], kind: str) -> dict[str, Manifest]:
    return {m["metadata"]["name"]: m for m in manifests if m["kind"] == kind}


def component_of(manifest: Manifest) -> str:
    return str(manifest["metadata"]["labels"]["app.kubernetes.io/component"])


def secrets_of(manifests: list[Manifest], volume: str) -> dict[str, str]:
    """Return the secret that each workload mounts as a volume."""
    found = {}
    for deployment in of_kind(manifests, "Deployment").values():
        pod: dict[str, Any] = deployment["spec"]["template"]["spec"]
        for one in pod["volumes"]:
            if one["name"] == volume:
                found[component_of(deployment)] = one["secret"]["secretName"]
    return found


def settings_of(manifests: list[Manifest]) -> set[str]:
    containers = [
        deployment["spec"]["template"]["spec"]["containers"][0]
        for deployment in of_kind(manifests, "Deployment").values()
    ]
    return {entry["name"] for container in containers for entry in container["env"]}


def test_every_service_that_calls_or_is_called_has_a_certificate_of_its_own(chart: Chart) -> None:
    manifests = chart()
    certificates = of_kind(manifests, "Certificate")
    assert {component_of(one) for one in certificates.values()} == PROVING
    made = {component_of(one): one["spec"]["secretName"] for one in certificates.values()}
    assert secrets_of(manifests, "tls") == made
    for one in certificates.values():
        assert f"{component_of(one)}.perdure.internal" in one["spec"]["dnsNames"]
        assert {"server auth", "client auth"} <= set(one["spec"]["usages"])
        assert one["spec"]["issuerRef"]["name"] == "perdure"


def test_secrets_of_ones_own_are_found_by_their_prefix(chart: Chart) -> None:
    manifests = chart(values="external")
    assert of_kind(manifests, "Certificate") == {}
    assert secrets_of(manifests, "tls") == {name: f"mesh-{name}" for name in PROVING}


def test_without_tls_nothing_of_it_is_left(chart: Chart) -> None:
    for values in ("minimal", "autoscaled"):
        manifests = chart('tls.mode="off"', 'tls.public.existingSecret=""', values=values)
        assert of_kind(manifests, "Certificate") == {}
        assert of_kind(manifests, "TriggerAuthentication") == {}
        assert secrets_of(manifests, "tls") == {}
        assert not any("TLS" in name for name in settings_of(manifests))


def test_keda_proves_who_it_is_where_it_asks_for_the_backlog(chart: Chart) -> None:
    manifests = chart(values="autoscaled")
    certificates = {component_of(one): one for one in of_kind(manifests, "Certificate").values()}
    assert certificates.keys() == {*PROVING, "keda"}
    (scaled,) = of_kind(manifests, "ScaledObject").values()
    (trigger,) = scaled["spec"]["triggers"]
    proof = of_kind(manifests, "TriggerAuthentication")[trigger["authenticationRef"]["name"]]
    secrets = {one["name"] for one in proof["spec"]["secretTargetRef"]}
    assert secrets == {certificates["keda"]["spec"]["secretName"]}
    host = trigger["metadata"]["scalerAddress"].partition(":")[0]
    assert host in certificates["coordinator"]["spec"]["dnsNames"]
    assert "keda" not in {component_of(one) for one in of_kind(chart(), "Certificate").values()}


@pytest.mark.parametrize(("values", "secret"), [("autoscaled", "perdure-public"), ("minimal", "")])
def test_the_public_ports_have_a_certificate_where_one_is_named(
    chart: Chart, values: str, secret: str
) -> None:
    manifests = chart(values=values)
    doors = {
        name: told
        for name, told in secrets_of(manifests, "public-tls").items()
        if name in ("ingest", "worker")
    }
    assert doors == ({"ingest": secret, "worker": secret} if secret else {})
    assert ("PERDURE_PUBLIC_TLS_CERT" in settings_of(manifests)) is bool(secret)
