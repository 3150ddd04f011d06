"""What operators can set of the gate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from perdure_runtime.access import Role
from perdure_runtime.config import setting
from perdure_runtime.config_groups import GateConfig
from perdure_runtime.errors import FieldViolation

ALGORITHMS = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
"""Signatures with a public key; a shared secret, or none, is refused by name."""


@dataclass(frozen=True, kw_only=True)
class AuthConfig(GateConfig):
    """Who may call, by key or by token, and how often."""

    installation_org: str = setting(
        "default",
        help="The org whose keys may act on what all orgs share: lanes, weights of orgs, doctor; "
        "empty is none.",
    )

    jwt_issuer: str = setting(
        "", help="Issuer (iss) whose tokens are accepted beside API keys; empty accepts none."
    )
    jwt_audience: str = setting("", help="Audience (aud) that a token must be for.")
    jwt_jwks: str = setting(
        "",
        help="The issuer's keys (JWKS): a file, or an https:// URL that is fetched now and then.",
    )
    jwt_algorithms: tuple[str, ...] = setting(
        ("RS256", "ES256"), help="Signatures that are accepted, of those with public keys alone."
    )
    jwt_org_claim: str = setting(
        "", help="Claim that names a token's org; empty: every token is of PERDURE_ORG."
    )
    jwt_role_claim: str = setting(
        "roles",
        help="Claim with what somebody is, a text or a list; one without a known role there has "
        "those of the member whose name is the token's subject.",
    )
    jwt_roles: tuple[str, ...] = setting(
        (), help="What values of that claim mean, as value=role,...; empty: they are roles by name."
    )

    @property
    def role_map(self) -> Mapping[str, Role]:
        """The role that each value of the claim stands for."""
        if not self.jwt_roles:
            return {role.value: role for role in Role}
        pairs = (text.rpartition("=") for text in self.jwt_roles)
        return {value: Role(role) for value, _, role in pairs}

    def problems(self) -> Iterable[FieldViolation]:
        """Refuse what would leave callers without an org."""
        yield from super().problems()
        if self.jwt_issuer:
            yield from self._token_problems()

    def _token_problems(self) -> Iterable[FieldViolation]:
        for name in ("jwt_audience", "jwt_jwks", "jwt_algorithms", "jwt_role_claim"):
            if not getattr(self, name):
                yield FieldViolation(name, "is required where jwt_issuer is set")
        if self.jwt_jwks.startswith("http://"):
            yield FieldViolation("jwt_jwks", "must be a file or an https:// URL")
        unsafe = sorted(set(self.jwt_algorithms) - ALGORITHMS)
        if unsafe:
            yield FieldViolation("jwt_algorithms", f"must be among {', '.join(sorted(ALGORITHMS))}")
        if any(text.rpartition("=")[2] not in set(Role) for text in self.jwt_roles):
            yield FieldViolation("jwt_roles", f"must be value=role with one of {', '.join(Role)}")
