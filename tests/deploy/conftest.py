"""A renderer of the chart."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.findings import ROOT
from tools.render_chart import CHART, Manifest, render

Chart = Callable[..., list[Manifest]]


@pytest.fixture(scope="session")
def chart() -> Chart:
    """Render the chart: `chart('services.worker.replicas=1', values="external")`."""
    helm = Path(os.environ.get("HELM", ROOT / ".perdure" / "tools" / "helm"))

    def rendered(
        *settings: str, values: str = "minimal", is_upgrade: bool = False
    ) -> list[Manifest]:
        files = [CHART / "ci" / f"{values}-values.yaml"]
        return render(helm, files, settings, is_upgrade=is_upgrade)

    return rendered
