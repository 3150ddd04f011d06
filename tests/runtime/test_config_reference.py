from dataclasses import dataclass
from pathlib import Path

import pytest
from perdure_runtime.config import setting
from perdure_runtime.config_groups import DatabaseConfig, ServiceConfig
from perdure_runtime.config_reference import describe, main, render


@dataclass(frozen=True, kw_only=True)
class PumpConfig(ServiceConfig, DatabaseConfig):
    SERVICE = "relay"
    wait: float = setting(2.5, min=0.1, unit="seconds", help="Wait between strokes.")
    cap: int | None = setting(None, min=1, max=9, help="Cap.")
    lanes: tuple[str, ...] = setting(("io", "slow"), help="Lanes.")
    loud: bool = setting(False, help="Loud.")


def test_every_setting_is_described_with_unit_range_and_default() -> None:
    rows = {row[0]: row[1:] for row in describe(PumpConfig)}
    assert rows["PERDURE_WAIT"] == (
        "number of seconds, at least 0.1",
        "`2.5`",
        "Wait between strokes.",
    )
    assert rows["PERDURE_CAP"] == ("whole number, 1 to 9, may be empty", "empty", "Cap.")
    assert rows["PERDURE_LANES"][:2] == ("list parted by commas", "`io,slow`")
    assert rows["PERDURE_LOUD"][:2] == ("`true` or `false`", "`false`")
    assert rows["PERDURE_DATABASE_URL"][:2] == ("text, secret", "required")
    assert rows["PERDURE_LOG_FORMAT"][0] == "one of `auto`, `json`, `console`"


def test_the_page_has_a_section_per_service_in_the_order_of_the_datas_way() -> None:
    page = render({"timer": PumpConfig, "zebra": PumpConfig, "ingest": PumpConfig})
    assert [line[3:] for line in page.splitlines() if line.startswith("## ")] == [
        "ingest",
        "timer",
        "zebra",
        "Other programs and tests",
    ]
    assert "| `PERDURE_FAIL_POINTS` |" in page


def test_check_finds_a_page_that_is_out_of_date(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "reference" / "configuration.md"
    assert main(["--check", "--page", str(page)]) == 1
    assert main(["--page", str(page)]) == 0
    assert main(["--check", "--page", str(page)]) == 0
    page.write_text(page.read_text() + "x")
    assert main(["--check", "--page", str(page)]) == 1
    assert "out of date" in capsys.readouterr().err
