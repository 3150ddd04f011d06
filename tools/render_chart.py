"""Render the chart with each of its ci/ value files and validate the manifests, offline.

Usage: python -m tools.render_chart --helm PATH
"""

import argparse
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]  # ships no types
import yaml

from tools.findings import ROOT, Finding, report

CHART = ROOT / "deploy" / "helm" / "perdure"
KUBERNETES_VERSIONS = ("1.30", "1.34", "1.37")
"""The oldest that Chart.yaml admits, one between, and the newest with a schema."""

CUSTOM = ("keda.sh/", "cert-manager.io/")

Manifest = dict[str, Any]


def render(
    helm: Path, values: Iterable[Path], settings: Iterable[str] = (), *, is_upgrade: bool = False
) -> list[Manifest]:
    """Return the manifests of one value set; CalledProcessError, with helm's words, if refused."""
    command = [str(helm), "template", "perdure", str(CHART), "--namespace=perdure"]
    command += [f"--values={path}" for path in values]
    command += [f"--set-json={text}" for text in settings]
    command += ["--is-upgrade"] if is_upgrade else []
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    # By the loader in C: reading would take as long as rendering.
    documents = yaml.load_all(done.stdout, Loader=yaml.CSafeLoader)
    return [document for document in documents if document]


def problems(manifest: Manifest, version: str) -> list[str]:
    """Return what the schema of one Kubernetes version says against a manifest.

    Nothing of a custom resource, which no version has a schema of.
    """
    if manifest["apiVersion"].startswith(CUSTOM):
        return []
    try:
        kubernetes_validate.validate(manifest, version, strict=True)
    except kubernetes_validate.ValidationError as problem:
        where = ".".join(str(part) for part in problem.path)
        return [f"{manifest['kind']} {manifest['metadata']['name']}: {where}: {problem.message}"]
    return []


def main() -> int:
    """Validate each value set against each version."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--helm", type=Path, required=True, help="the helm to run")
    helm: Path = parser.parse_args().helm
    findings: list[Finding] = []
    count = 0
    for values in sorted((CHART / "ci").glob("*-values.yaml")):
        name = str(values.relative_to(ROOT))
        try:
            manifests = render(helm, [values])
        except subprocess.CalledProcessError as refused:
            findings.append(Finding(name, 1, refused.stderr.strip()))
            continue
        count += len(manifests)
        findings.extend(
            Finding(name, 1, f"Kubernetes {version}: {problem}")
            for version in KUBERNETES_VERSIONS
            for manifest in manifests
            for problem in problems(manifest, version)
        )
    return report("helm-render", findings, f"{count} manifests")


if __name__ == "__main__":
    sys.exit(main())
