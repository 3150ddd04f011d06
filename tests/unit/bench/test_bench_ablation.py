"""What `make bench-ablation` makes of its rounds."""

from tests.bench.ablation import SWITCHES, WHOLE, ratios


def test_what_has_something_off_is_told_as_a_ratio_to_the_whole() -> None:
    found = {
        WHOLE: {"steps": [90.0, 100.0, 500.0], "p50": [2.0]},
        "P4 remembered runs": {"steps": [50.0, 25.0, 60.0], "p50": [5.0]},
    }
    assert ratios(found) == {
        WHOLE: {"steps": 100.0, "p50": 2.0},
        "P4 remembered runs": {"steps": 0.5, "p50": 2.5},
    }


def test_each_technique_that_may_be_switched_off_is() -> None:
    assert {name.split()[0] for name in SWITCHES} == {"all", "P1", "P3", "P4", "P5", "P7"}
