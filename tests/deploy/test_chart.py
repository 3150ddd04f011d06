"""The rendered chart keeps what a rollout and a restricted namespace need."""

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tools.render_chart import Manifest, problems

Chart = Callable[..., list[Manifest]]
SERVICES = {"ingest", "coordinator", "relay", "worker", "timer", "sweeper"}
VALUE_SETS = ["minimal", "autoscaled", "external"]


def of_kind(manifests: list[Manifest], kind: str) -> dict[str, Manifest]:
    """Return component -> manifest; a headless Service is under `<component>-headless`."""
    found = {}
    for manifest in manifests:
        if manifest["kind"] == kind:
            name = manifest["metadata"]["labels"]["app.kubernetes.io/component"]
            is_headless = manifest["metadata"]["name"].endswith("-headless")
            found[f"{name}-headless" if is_headless else name] = manifest
    return found


def pod_of(manifest: Manifest) -> dict[str, Any]:
    pod: dict[str, Any] = manifest["spec"]["template"]["spec"]
    return pod


def environment_of(manifest: Manifest) -> dict[str, Any]:
    return {entry["name"]: entry for entry in pod_of(manifest)["containers"][0]["env"]}


def secret_of(manifest: Manifest, variable: str) -> tuple[str, str]:
    reference = environment_of(manifest)[variable]["valueFrom"]["secretKeyRef"]
    return reference["name"], reference["key"]


def test_six_workloads_start_their_service(chart: Chart) -> None:
    deployments = of_kind(chart(), "Deployment")
    assert deployments.keys() == SERVICES
    for name, deployment in deployments.items():
        assert pod_of(deployment)["containers"][0]["args"] == ["python", "-m", f"perdure_{name}"]


def test_replicas_are_left_to_the_autoscaler(chart: Chart) -> None:
    manifests = chart(values="autoscaled")
    by_backlog = of_kind(manifests, "ScaledObject").keys()
    autoscaled = of_kind(manifests, "HorizontalPodAutoscaler").keys() | by_backlog
    assert by_backlog == {"worker-reports"}
    assert autoscaled == {"ingest", "coordinator", "worker", "worker-reports"}
    for name, deployment in of_kind(manifests, "Deployment").items():
        assert ("replicas" in deployment["spec"]) is (name not in autoscaled)


def test_a_worker_is_scaled_on_what_its_own_queues_hold(chart: Chart) -> None:
    scaled = of_kind(chart(values="autoscaled"), "ScaledObject")["worker-reports"]["spec"]
    assert scaled["scaleTargetRef"]["name"] == "perdure-worker-reports"
    assert (scaled["minReplicaCount"], scaled["maxReplicaCount"]) == (2, 20)
    (trigger,) = scaled["triggers"]
    assert trigger == {
        "type": "external",
        "metadata": {
            "scalerAddress": "perdure-coordinator.perdure.svc:7410",
            "queues": "reports:default,reports:shared",
            "steps": "3.2",
        },
        "authenticationRef": {"name": "perdure-keda"},
    }
    scaling = 'services.worker.autoscaling={"enabled": true, "backlogStepsPerReplica": 12}'
    (first,) = of_kind(chart(scaling), "ScaledObject").values()
    assert "io:shared,io:default" in first["spec"]["triggers"][0]["metadata"]["queues"]


def test_the_worker_has_no_way_to_the_database(chart: Chart) -> None:
    deployments = of_kind(chart(values="autoscaled"), "Deployment")
    for name, deployment in deployments.items():
        has_url = "PERDURE_DATABASE_URL" in environment_of(deployment)
        assert has_url is not name.startswith("worker")
    assert "perdure-database" not in str(deployments["worker"])


def test_each_service_has_a_database_role_of_its_own(chart: Chart) -> None:
    deployments = of_kind(chart(), "Deployment")
    for name in SERVICES - {"worker"}:
        found = secret_of(deployments[name], "PERDURE_DATABASE_URL")
        assert found == ("perdure-database", f"{name}-url")


def test_the_direct_url_is_given_where_it_is_named(chart: Chart) -> None:
    deployments = of_kind(chart(values="autoscaled"), "Deployment")
    with_url = {
        name
        for name, deployment in deployments.items()
        if "PERDURE_DATABASE_DIRECT_URL" in environment_of(deployment)
    }
    assert with_url == {"coordinator", "relay", "timer"}


def test_redis_is_for_relay_and_worker(chart: Chart) -> None:
    deployments = of_kind(chart(), "Deployment")
    with_redis = {name for name in SERVICES if "PERDURE_REDIS_URL" in str(deployments[name])}
    assert with_redis == {"relay", "worker"}
    assert secret_of(deployments["worker"], "PERDURE_REDIS_URL") == ("perdure-redis", "url")


def test_only_the_migration_sees_the_owner(chart: Chart) -> None:
    manifests = chart()
    with_owner = [manifest["kind"] for manifest in manifests if "perdure-owner" in str(manifest)]
    assert with_owner == ["Job"]
    migration = of_kind(manifests, "Job")["migrate"]
    assert secret_of(migration, "PERDURE_DATABASE_URL") == ("perdure-owner", "owner-url")


def test_a_failed_migration_stops_the_rollout(chart: Chart) -> None:
    migration = of_kind(chart(), "Job")["migrate"]
    assert migration["metadata"]["annotations"] == {
        "helm.sh/hook": "pre-install,pre-upgrade",
        "helm.sh/hook-weight": "0",
        "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
    }
    assert migration["metadata"]["name"] == "perdure-migrate"


def test_what_only_the_new_release_bears_is_migrated_after_an_upgrade(chart: Chart) -> None:
    jobs = of_kind(chart(is_upgrade=True), "Job")
    assert {name: pod_of(job)["containers"][0]["args"][-1] for name, job in jobs.items()} == {
        "migrate": "pre",
        "migrate-after": "post",
    }
    after = jobs["migrate-after"]["metadata"]["annotations"]
    assert after["helm.sh/hook"] == "post-upgrade"
    assert pod_of(of_kind(chart(), "Job")["migrate"])["containers"][0]["args"][-1] == "migrate"


def test_a_hook_uses_nothing_that_the_chart_makes_later(chart: Chart) -> None:
    manifests = chart()
    accounts = {
        account["metadata"]["name"] for account in of_kind(manifests, "ServiceAccount").values()
    }
    assert pod_of(of_kind(manifests, "Job")["migrate"]).get("serviceAccountName") not in accounts


def test_an_ordinary_job_is_new_with_each_revision(chart: Chart) -> None:
    migration = of_kind(chart(values="autoscaled"), "Job")["migrate"]
    assert migration["metadata"]["name"] == "perdure-migrate-1"
    assert migration["metadata"]["annotations"] == {"argocd.argoproj.io/sync-wave": "-1"}
    assert migration["spec"]["ttlSecondsAfterFinished"] == 86400


def test_an_external_migration_leaves_nothing(chart: Chart) -> None:
    assert of_kind(chart(values="external"), "Job") == {}


@pytest.mark.parametrize("values", VALUE_SETS)
def test_the_grace_period_covers_the_drain(chart: Chart, values: str) -> None:
    for deployment in of_kind(chart(values=values), "Deployment").values():
        pod = pod_of(deployment)
        container = pod["containers"][0]
        drain = int(environment_of(deployment)["PERDURE_DRAIN_SECONDS"]["value"])
        pre_stop = container["lifecycle"]["preStop"]["sleep"]["seconds"]
        assert pod["terminationGracePeriodSeconds"] == pre_stop + drain + 10


@pytest.mark.parametrize("values", VALUE_SETS)
def test_every_pod_meets_the_restricted_standard(chart: Chart, values: str) -> None:
    manifests = chart(values=values)
    pods = [pod_of(manifest) for manifest in manifests if manifest["kind"] in {"Deployment", "Job"}]
    for pod in pods:
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["requests"]
            assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]


def test_a_budget_stands_only_where_a_second_replica_runs(chart: Chart) -> None:
    manifests = chart(values="autoscaled")
    assert of_kind(manifests, "PodDisruptionBudget").keys() == (
        SERVICES - {"sweeper"} | {"worker-reports"}
    )
    assert of_kind(chart(values="external"), "PodDisruptionBudget") == {}


def test_services_lead_to_the_pods_they_name(chart: Chart) -> None:
    manifests = chart()
    services = of_kind(manifests, "Service")
    deployments = of_kind(manifests, "Deployment")
    assert services.keys() == {
        f"{name}{suffix}"
        for name in ("ingest", "coordinator", "worker")
        for suffix in ("", "-headless")
    }
    for name, service in services.items():
        deployment = deployments[name.removesuffix("-headless")]
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert service["spec"]["selector"].items() <= labels.items()
        ports = {
            port["name"]: port["containerPort"]
            for port in pod_of(deployment)["containers"][0]["ports"]
        }
        assert service["spec"]["ports"][0]["port"] == ports["grpc"]
        assert (service["spec"].get("clusterIP") == "None") is name.endswith("-headless")


def test_the_coordinator_is_found_by_its_headless_service(chart: Chart) -> None:
    manifests = chart()
    address = f"dns:///{of_kind(manifests, 'Service')['coordinator-headless']['metadata']['name']}"
    for name in ("ingest", "worker", "timer", "sweeper"):
        environment = environment_of(of_kind(manifests, "Deployment")[name])
        found = environment["PERDURE_COORDINATOR_ADDRESS"]["value"]
        assert found == f"{address}.perdure.svc:7410"


def test_a_digest_wins_over_a_tag(chart: Chart) -> None:
    digest = "sha256:" + "0" * 64
    for manifest in chart('image.tag="9"', values="autoscaled"):
        if manifest["kind"] in {"Deployment", "Job"}:
            assert pod_of(manifest)["containers"][0]["image"] == f"perdure@{digest}"


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("services.worker.replica=1", "additional properties 'replica' not allowed"),
        ("services.scheduler={}", "additional properties 'scheduler' not allowed"),
        ('database.keys.worker="url"', "additional properties 'worker' not allowed"),
        ('migrations.mode="never"', "'hook', 'job', 'external'"),
        ('database.existingSecret=""', "database.existingSecret: name of the secret"),
        ('redis.existingSecret=""', "redis.existingSecret: name of the secret"),
        ('pageTokens.existingSecret=""', "pageTokens.existingSecret: name of the secret"),
        ('taskTokens.existingSecret=""', "taskTokens.existingSecret: name of the secret"),
        ('migrations.existingSecret=""', "migrations.existingSecret: name of the secret"),
        ('tls.mode="on"', "'certManager', 'secrets', 'off'"),
        ('tls.certManager.issuer.name=""', "tls.certManager.issuer.name: name of the issuer"),
    ],
)
def test_a_wrong_value_is_refused_by_name(chart: Chart, setting: str, complaint: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        chart(setting)
    assert complaint in refused.value.stderr


def test_the_validator_finds_a_misspelt_field(chart: Chart) -> None:
    deployment = of_kind(chart(), "Deployment")["relay"]
    assert problems(deployment, "1.34") == []
    deployment["spec"]["replica"] = 2
    assert len(problems(deployment, "1.34")) == 1
