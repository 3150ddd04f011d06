"""What the sender of a single change that failed is told."""

from __future__ import annotations

import logging

from perdure_runtime.errors import Internal, PerdureError, Reason
from perdure_runtime.logs import log_failure

_logger = logging.getLogger(__name__)


def refusal(error: Exception, what: str) -> PerdureError:
    """Return the error itself if it is for the sender; else log it and say that `what` failed."""
    if isinstance(error, PerdureError):
        return error
    log_failure(_logger, f"{what}.failed", error)
    return Internal(f"the {what} could not be applied", reason=Reason.INTERNAL)
