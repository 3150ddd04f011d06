"""What a caller presents in the header `authorization`."""

from __future__ import annotations

from perdure_runtime.api_keys import MARK, PresentedKey, bearer, read_key
from perdure_runtime.errors import Reason, Unauthenticated


def presented_credential(authorization: str | None) -> str:
    """Return the credential of the header's value. Raises Unauthenticated, KEY_MISSING."""
    credential = bearer(authorization)
    if credential is None:
        raise Unauthenticated(
            "the call carries no key: send `authorization: Bearer <key>`",
            reason=Reason.KEY_MISSING,
        )
    return credential


def presented_key(credential: str) -> PresentedKey:
    """Return the key that a credential is. Raises Unauthenticated, KEY_INVALID."""
    presented = read_key(credential)
    if presented is None:
        raise Unauthenticated(
            f"this has not the form of a key: {MARK} and 65 characters of a-z, 2-7 and _",
            reason=Reason.KEY_INVALID,
        )
    return presented
