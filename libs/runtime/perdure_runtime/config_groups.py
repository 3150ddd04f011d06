"""Settings that several services share, as groups that a service's config class inherits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from perdure_runtime.certificates import Certificates, TlsFiles
from perdure_runtime.config import Config, setting
from perdure_runtime.errors import FieldViolation

MAX_PORT = 65535


@dataclass(frozen=True, kw_only=True)
class ServiceConfig(Config):
    """What every service has; each sets a default `ops_port` of its own."""

    host: str = setting("127.0.0.1", help="Address that the service's ports listen on.")
    ops_port: int = setting(
        0, min=0, max=MAX_PORT, help="Port of /livez, /readyz and /metrics; 0 takes a free one."
    )
    log_format: str = setting(
        "auto",
        choices=("auto", "json", "console"),
        help="Form of log lines; auto is console on a terminal and json elsewhere.",
    )
    log_level: str = setting(
        "info", choices=("debug", "info", "warning", "error"), help="Least level that is logged."
    )
    otlp_endpoint: str = setting(
        "", help="OTLP gRPC endpoint for traces, such as http://collector:4317; empty is off."
    )
    trace_ratio: float = setting(
        1.0, min=0.0, max=1.0, help="Share of runs that are traced when an endpoint is set."
    )
    drain_seconds: float = setting(
        25.0,
        min=0.0,
        max=3600.0,
        unit="seconds",
        help="Longest time that work in flight may take to finish after SIGTERM.",
    )


@dataclass(frozen=True, kw_only=True)
class GrpcConfig(Config):
    """For services with a gRPC port; each sets a default `grpc_port` of its own."""

    grpc_port: int = setting(
        0, min=0, max=MAX_PORT, help="Port of the gRPC server; 0 takes a free one."
    )
    grpc_reflection: bool = setting(
        True, help="Whether the gRPC server describes its services to tools."
    )
    grpc_max_concurrent_rpcs: int = setting(
        2000, min=1, unit="calls", help="Calls that are served at once; more are refused."
    )


@dataclass(frozen=True, kw_only=True)
class TlsConfig(Config):
    """For services that call others or are called by them: who they are to each other."""

    tls_cert: str = setting(
        "",
        help="File with this service's certificate, in PEM, for calls between services; empty "
        "is plain text.",
    )
    tls_key: str = setting("", help="File with the key of tls_cert, in PEM.")
    tls_ca: str = setting(
        "", help="File with the authorities, in PEM, that certificates of other services come from."
    )

    def problems(self) -> Iterable[FieldViolation]:
        """Refuse some of the files without the others."""
        yield from super().problems()
        given = [name for name in ("tls_cert", "tls_key", "tls_ca") if getattr(self, name)]
        if given and len(given) < 3:
            missing = {"tls_cert", "tls_key", "tls_ca"} - set(given)
            for name in sorted(missing):
                yield FieldViolation(name, f"is needed beside {', '.join(given)}")

    def certificates(self) -> Certificates | None:
        """Return what the files hold; None for plain text. Raises InvalidArgument."""
        if not self.tls_cert:
            return None
        return Certificates(TlsFiles(self.tls_cert, self.tls_key, self.tls_ca), "services")


@dataclass(frozen=True, kw_only=True)
class CoordinatorClientConfig(TlsConfig):
    """For services that call the coordinator."""

    coordinator_address: str = setting(
        "127.0.0.1:7410", help="Address of the coordinator, host:port."
    )
    converse: bool = setting(
        True,
        help="Whether batched calls to the coordinator go over a stream that stays open; otherwise "
        "each is one of gRPC.",
    )


@dataclass(frozen=True, kw_only=True)
class PublicTlsConfig(Config):
    """For services that are called from outside."""

    public_tls_cert: str = setting(
        "", help="File with the certificate of the public ports, in PEM; empty is plain text."
    )
    public_tls_key: str = setting("", help="File with the key of public_tls_cert, in PEM.")

    def problems(self) -> Iterable[FieldViolation]:
        """Refuse one file without the other."""
        yield from super().problems()
        if bool(self.public_tls_cert) != bool(self.public_tls_key):
            missing = "public_tls_key" if self.public_tls_cert else "public_tls_cert"
            yield FieldViolation(missing, "certificate and key need each other")

    def public_certificates(self) -> Certificates | None:
        """Return what the files hold; None for plain text. Raises InvalidArgument."""
        if not self.public_tls_cert:
            return None
        return Certificates(TlsFiles(self.public_tls_cert, self.public_tls_key), "public")


KEYS = "keys"
OFF = "off"


@dataclass(frozen=True, kw_only=True)
class GateConfig(Config):
    """For services that are called from outside: how callers are known, and how often one calls."""

    auth: str = setting(
        KEYS,
        choices=(KEYS, OFF),
        help="How callers are known: keys is API keys, and at ingest tokens where they are set up; "
        "off takes everybody for an admin of PERDURE_ORG, where the network alone guards the door.",
    )
    org: str = setting(
        "default", help="The org that every caller belongs to where auth is off; else unused."
    )
    key_cache_seconds: float = setting(
        2.0,
        min=0.1,
        max=60.0,
        unit="seconds",
        help="How long a key that was looked up is taken for good: a revoked one works no longer.",
    )
    key_rate: float = setting(
        1000.0,
        min=0.1,
        max=1e6,
        unit="calls a second",
        help="Calls that one key may make of one process, where the key has no rate of its own.",
    )
    key_burst: int = setting(
        2000, min=1, unit="calls", help="Calls that one key may make at once beyond its rate."
    )
    key_calls: int = setting(
        500,
        min=1,
        unit="calls",
        help="Calls, streams and long polls among them, that one key may have open; keep it below "
        "what one process takes of these, so that no key takes the places of all.",
    )

    def problems(self) -> Iterable[FieldViolation]:
        """Refuse what would leave callers without an org."""
        yield from super().problems()
        if not self.org:
            yield FieldViolation("org", "must not be empty")


@dataclass(frozen=True, kw_only=True)
class DatabaseConfig(Config):
    """For services that use PostgreSQL."""

    database_url: str = setting(
        secret=True, help="postgresql:// URL of the database; may go through a pooler."
    )
    database_direct_url: str = setting(
        "",
        secret=True,
        help="postgresql:// URL that reaches the server itself, for LISTEN and migrations; "
        "empty takes PERDURE_DATABASE_URL.",
    )

    @property
    def direct_url(self) -> str:
        """The URL for LISTEN and migrations."""
        return self.database_direct_url or self.database_url

    def problems(self) -> Iterable[FieldViolation]:
        """Refuse URLs of another kind of server, without printing them."""
        yield from super().problems()
        for name in ("database_url", "database_direct_url"):
            url = getattr(self, name)
            if url and not url.startswith(("postgresql://", "postgres://")):
                yield FieldViolation(name, "must start with postgresql://")


@dataclass(frozen=True, kw_only=True)
class RedisConfig(Config):
    """For services that use Redis or Valkey."""

    redis_url: str = setting(
        secret=True, help="redis://, rediss:// or unix:// URL of Redis or Valkey."
    )

    def problems(self) -> Iterable[FieldViolation]:
        """Refuse URLs of another kind of server, without printing them."""
        yield from super().problems()
        if not self.redis_url.startswith(("redis://", "rediss://", "unix://")):
            yield FieldViolation("redis_url", "must start with redis://, rediss:// or unix://")
