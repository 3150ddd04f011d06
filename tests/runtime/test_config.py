from collections.abc import Iterable
from dataclasses import FrozenInstanceError, dataclass

import pytest
from perdure_runtime.config import Config, load, setting
from perdure_runtime.config_groups import DatabaseConfig, RedisConfig, ServiceConfig
from perdure_runtime.errors import FieldViolation, InvalidArgument, Reason


@dataclass(frozen=True, kw_only=True)
class PumpConfig(Config):
    SERVICE = "pump"
    port: int = setting(7400, min=0, max=65535, help="Port.")
    wait: float = setting(2.5, min=0.1, unit="seconds", help="Wait.")
    loud: bool = setting(False, help="Loud.")
    mode: str = setting("fast", choices=("fast", "slow"), help="Mode.")
    lanes: tuple[str, ...] = setting(("io",), help="Lanes.")
    cap: int | None = setting(None, min=1, help="Cap.")
    token: str = setting(secret=True, help="Token of the pump.")

    def problems(self) -> Iterable[FieldViolation]:
        if self.mode == "slow" and self.loud:
            yield FieldViolation("loud", "must be false when mode is slow")


def load_pump(**environ: str) -> PumpConfig:
    given = {f"PERDURE_{name.upper()}": value for name, value in environ.items()}
    return load(PumpConfig, {"PERDURE_TOKEN": "s3cret"} | given, known=())


def refused(**environ: str) -> dict[str, str]:
    with pytest.raises(InvalidArgument) as error:
        load_pump(**environ)
    assert error.value.reason is Reason.CONFIG_INVALID
    assert all(violation.field in error.value.message for violation in error.value.violations)
    return {violation.field: violation.description for violation in error.value.violations}


def test_defaults_hold_when_nothing_is_set() -> None:
    assert load_pump() == PumpConfig(token="s3cret")


def test_values_are_read_by_type() -> None:
    config = load_pump(port="1", wait="0.5", loud="yes", lanes="a, b", cap="3")
    assert (config.port, config.wait, config.loud, config.lanes, config.cap) == (
        1, 0.5, True, ("a", "b"), 3,
    )  # fmt: skip


def test_an_optional_setting_can_be_emptied() -> None:
    assert load_pump(cap="").cap is None


def test_the_services_own_variable_wins_over_the_shared_one() -> None:
    assert load_pump(port="1", pump_port="2").port == 2


def test_all_problems_are_reported_at_once_by_variable() -> None:
    problems = refused(
        pump_port="70000", wait="soon", loud="maybe", mode="warp", cap="0", lane="io"
    )
    assert problems == {
        "PERDURE_PUMP_PORT": "must be at most 65535, is 70000",
        "PERDURE_WAIT": "must be a number, is 'soon'",
        "PERDURE_LOUD": "must be true or false, is 'maybe'",
        "PERDURE_MODE": "must be one of fast, slow, is 'warp'",
        "PERDURE_CAP": "must be at least 1, is 0",
        "PERDURE_LANE": "is not a setting of any service; did you mean PERDURE_LANES?",
    }


def test_not_a_number_is_out_of_range() -> None:
    assert "PERDURE_WAIT" in refused(wait="nan")


def test_a_required_setting_is_named_when_missing() -> None:
    with pytest.raises(InvalidArgument) as error:
        load(PumpConfig, {}, known=())
    assert error.value.violations == (
        FieldViolation("PERDURE_TOKEN", "is required: Token of the pump."),
    )


def test_problems_between_fields_are_reported() -> None:
    assert refused(mode="slow", loud="1") == {"loud": "must be false when mode is slow"}


def test_values_are_checked_however_the_object_is_made() -> None:
    with pytest.raises(InvalidArgument) as error:
        PumpConfig(token="", port=-1)
    assert [violation.field for violation in error.value.violations] == ["port"]


def test_variables_of_other_services_and_of_tests_are_accepted() -> None:
    environ = {"PERDURE_TOKEN": "t", "PERDURE_TEST_X": "1", "PERDURE_TIDE": "1", "HOME": "/"}
    load(PumpConfig, environ, known={"PERDURE_TIDE"})


def test_variables_that_kubernetes_injects_for_services_are_accepted() -> None:
    load_pump(
        ingest_service_host="10.0.0.1",
        ingest_service_port="7400",
        ingest_port="tcp://10.0.0.1:7400",
        ingest_port_7400_tcp_addr="10.0.0.1",
    )


def test_an_unknown_port_variable_is_not_taken_for_one_of_kubernetes() -> None:
    assert list(refused(grpc_port="7400")) == ["PERDURE_GRPC_PORT"]


def test_a_secret_never_prints() -> None:
    config = load_pump()
    assert "s3cret" not in repr(config)
    assert config.printable()["token"] == "***"
    assert config.printable()["port"] == "7400"


def test_a_bad_secret_is_refused_without_printing_it() -> None:
    with pytest.raises(InvalidArgument) as error:
        DatabaseConfig(database_url="mysql://root:s3cret@db")
    assert "s3cret" not in error.value.message
    assert error.value.violations == (
        FieldViolation("database_url", "must start with postgresql://"),
    )


def test_a_config_object_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        load_pump().port = 1  # type: ignore[misc]


@dataclass(frozen=True, kw_only=True)
class RelayLikeConfig(ServiceConfig, DatabaseConfig, RedisConfig):
    SERVICE = "relaylike"


def test_groups_combine_and_check_each_of_their_own() -> None:
    urls = {"PERDURE_DATABASE_URL": "postgresql://h/d", "PERDURE_REDIS_URL": "redis://h"}
    config = load(RelayLikeConfig, urls, known=())
    assert (config.host, config.direct_url) == ("127.0.0.1", "postgresql://h/d")
    with pytest.raises(InvalidArgument) as error:
        load(RelayLikeConfig, urls | {"PERDURE_REDIS_URL": "http://h"}, known=())
    assert [violation.field for violation in error.value.violations] == ["redis_url"]
