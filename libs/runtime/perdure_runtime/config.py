"""One frozen configuration object per process, read from `PERDURE_*` and refused as a whole.

A service describes its settings once:

    @dataclass(frozen=True, kw_only=True)
    class RelayConfig(ServiceConfig, DatabaseConfig, RedisConfig):
        SERVICE = "relay"
        ops_port: int = setting(7439, min=0, max=65535, help="Port of the ops HTTP server.")
        batch_rows: int = setting(500, min=1, unit="rows", help="Most rows one pass takes.")

and registers the class under the entry point group `perdure.config`. Field `batch_rows` is read
from `PERDURE_RELAY_BATCH_ROWS`, else from `PERDURE_BATCH_ROWS`, so that several services can share
one environment. Everything wrong is reported at once, by variable; an unknown `PERDURE_*` variable
is refused with a suggestion, because a misspelt setting is a setting that silently has no effect.
"""

from __future__ import annotations

import difflib
import re
import typing
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from importlib.metadata import entry_points
from types import MappingProxyType, NoneType
from typing import Any, ClassVar, TypeVar

from perdure_runtime.errors import FieldViolation, InvalidArgument, Reason

PREFIX = "PERDURE_"
TEST_PREFIX = "PERDURE_TEST_"
ENTRY_POINT_GROUP = "perdure.config"

SERVICES = ("ingest", "coordinator", "relay", "worker", "timer", "sweeper")

READ_ELSEWHERE: Mapping[str, str] = MappingProxyType(
    {
        "PERDURE_FAIL_POINTS": "Fail points to arm; for tests of crashes only.",
        "PERDURE_ADDRESS": "Address of ingest that the CLI and the SDK call.",
        "PERDURE_API_KEY": "API key that the CLI and the SDK present.",
        "PERDURE_HANDLERS_ADDRESS": "Address of the workers' door that handlers which poll call.",
    }
)
"""Variables that belong to no service's config object, with what they do."""

_KEY = "perdure"
_TRUE, _FALSE = frozenset({"true", "1", "yes", "on"}), frozenset({"false", "0", "no", "off"})

# Kubernetes injects these for each Service in the namespace; a release named "perdure" would
# otherwise keep every process from starting.
_SERVICE_LINK = re.compile(r"PERDURE\w*_(SERVICE_(HOST|PORT)(_\w+)?|PORT(_\d+_(TCP|UDP)(_\w+)?)?)")


@dataclass(frozen=True, slots=True)
class Setting:
    """What is known of a field beside its type and default."""

    help: str
    unit: str | None
    min: float | None
    max: float | None
    choices: tuple[str, ...]
    secret: bool


def setting(
    default: Any = MISSING,
    *,
    help: str,  # noqa: A002 - reads as what it is at each use
    unit: str | None = None,
    min: float | None = None,  # noqa: A002
    max: float | None = None,  # noqa: A002
    choices: Iterable[str] = (),
    secret: bool = False,
) -> Any:
    """Declare one setting; without a default it must be given. A secret is never printed."""
    about = Setting(help, unit, min, max, tuple(choices), secret)
    return field(default=default, repr=not secret, metadata={_KEY: about})


@dataclass(frozen=True, kw_only=True)
class Config:
    """Base of all config classes; values are checked however the object is made.

    Raises InvalidArgument, CONFIG_INVALID, by field name.
    """

    SERVICE: ClassVar[str] = ""

    def __post_init__(self) -> None:
        """Check every value, then what `problems` finds between them."""
        found = [
            FieldViolation(item.name, problem)
            for item in fields(self)
            for problem in _range_problems(about(item), getattr(self, item.name))
        ]
        found += self.problems() if not found else ()
        if found:
            raise _refusal(type(self), found)

    def problems(self) -> Iterable[FieldViolation]:
        """What is wrong between fields; subclasses override it."""
        return ()

    def printable(self) -> dict[str, str]:
        """All values as text, secrets hidden; for the log line at start."""
        return {
            item.name: "***" if about(item).secret else str(getattr(self, item.name))
            for item in fields(self)
        }


ConfigT = TypeVar("ConfigT", bound=Config)


def about(item: Field[Any]) -> Setting:
    """The description of a field; TypeError if it was not made by `setting`."""
    described = item.metadata.get(_KEY)
    if not isinstance(described, Setting):
        raise TypeError(f"config field {item.name} is not declared with setting()")
    return described


def variables(config_class: type[Config], field_name: str) -> tuple[str, ...]:
    """The variables that are read for a field; the first that is set wins."""
    shared = PREFIX + field_name.upper()
    if not config_class.SERVICE:
        return (shared,)
    return f"{PREFIX}{config_class.SERVICE.upper()}_{field_name.upper()}", shared


def load(
    config_class: type[ConfigT], environ: Mapping[str, str], *, known: Iterable[str] | None = None
) -> ConfigT:
    """Read a config object from `environ`.

    `known` are the variables of other programs that share this environment; by default those of
    every registered config class. Raises InvalidArgument, CONFIG_INVALID, with all problems.
    """
    own = {name for item in fields(config_class) for name in variables(config_class, item.name)}
    others = known_variables() if known is None else frozenset(known)
    problems = [*_unknown(environ, own | others)]
    values: dict[str, object] = {}
    kinds = typing.get_type_hints(config_class)
    for item in fields(config_class):
        variable, text = _find(environ, variables(config_class, item.name))
        try:
            values |= _read(item, kinds[item.name], text)
        except ValueError as problem:
            problems.append(FieldViolation(variable, str(problem)))
    if problems:
        raise _refusal(config_class, problems)
    return config_class(**values)


def registered() -> dict[str, type[Config]]:
    """The config classes of the services that are installed here, by service."""
    found: dict[str, type[Config]] = {}
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name):
        try:
            found[entry.name] = entry.load()
        except ModuleNotFoundError:
            # The metadata of a service may be there without its code, as in a slim image.
            continue
    return found


def known_variables() -> frozenset[str]:
    """Every variable that some registered config class reads."""
    return frozenset(
        name
        for config_class in registered().values()
        for item in fields(config_class)
        for name in variables(config_class, item.name)
    )


def _find(environ: Mapping[str, str], names: tuple[str, ...]) -> tuple[str, str | None]:
    for name in names:
        if name in environ:
            return name, environ[name].strip()
    return names[-1], None


def _read(item: Field[Any], kind: Any, text: str | None) -> dict[str, object]:
    if text is None:
        if item.default is MISSING:
            raise ValueError("is required: " + about(item).help)
        return {}
    value = _parse(kind, text)
    for problem in _range_problems(about(item), value):
        raise ValueError(problem)
    return {item.name: value}


def _parse(kind: Any, text: str) -> object:
    optional = [part for part in typing.get_args(kind) if part is not NoneType]
    if NoneType in typing.get_args(kind):
        return None if text == "" else _parse(optional[0], text)
    if kind is bool:
        return _parse_bool(text)
    if kind is int:
        return _parse_number(int, text, "a whole number")
    if kind is float:
        return _parse_number(float, text, "a number")
    if typing.get_origin(kind) is tuple:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    if kind is str:
        return text
    raise TypeError(f"settings of type {kind} cannot be read from text")


def _parse_bool(text: str) -> bool:
    if text.lower() not in _TRUE | _FALSE:
        raise ValueError(f"must be true or false, is {text!r}")
    return text.lower() in _TRUE


def _parse_number(kind: type[int] | type[float], text: str, name: str) -> float:
    try:
        return kind(text)
    except ValueError:
        raise ValueError(f"must be {name}, is {text!r}") from None


def _range_problems(described: Setting, value: object) -> Iterable[str]:
    if described.choices and value not in described.choices:
        yield f"must be one of {', '.join(described.choices)}, is {value!r}"
    if not isinstance(value, int | float) or isinstance(value, bool):
        return
    unit = f" {described.unit}" if described.unit else ""
    # Written so that NaN, which no comparison admits, is refused.
    if described.min is not None and not value >= described.min:
        yield f"must be at least {described.min}{unit}, is {value}"
    if described.max is not None and not value <= described.max:
        yield f"must be at most {described.max}{unit}, is {value}"


def _unknown(environ: Mapping[str, str], known: frozenset[str] | set[str]) -> list[FieldViolation]:
    allowed = known | READ_ELSEWHERE.keys()
    return [
        FieldViolation(name, _suggestion(name, allowed))
        for name in sorted(environ)
        if name.startswith(PREFIX) and name not in allowed and not _is_foreign(name, environ[name])
    ]


def _is_foreign(name: str, value: str) -> bool:
    is_bare_port = name.endswith("_PORT") and "SERVICE_PORT" not in name
    if _SERVICE_LINK.fullmatch(name) and (not is_bare_port or "://" in value):
        return True
    return name.startswith((TEST_PREFIX, *_absent_service_prefixes()))


def _absent_service_prefixes() -> tuple[str, ...]:
    installed = {entry.name for entry in entry_points(group=ENTRY_POINT_GROUP)}
    return tuple(f"{PREFIX}{name.upper()}_" for name in SERVICES if name not in installed)


def _suggestion(name: str, allowed: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, sorted(allowed), n=1)
    return "is not a setting of any service" + (f"; did you mean {near[0]}?" if near else "")


def _refusal(config_class: type[Config], problems: Iterable[FieldViolation]) -> InvalidArgument:
    found = tuple(problems)
    listed = "\n".join(f"  {problem.field}: {problem.description}" for problem in found)
    name = config_class.SERVICE or config_class.__name__
    return InvalidArgument(
        f"the configuration of {name} has {len(found)} problem(s):\n{listed}\n"
        "Correct these and start again; docs/reference/configuration.md lists every setting.",
        reason=Reason.CONFIG_INVALID,
        violations=found,
    )
