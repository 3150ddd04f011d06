"""Where an answer sends a request on to, and what of it may go there.

Only GET and HEAD without a recorded effect are sent on. What goes to another origin takes nothing
along that may be a credential, and nothing goes from https to http.
"""

from __future__ import annotations

from dataclasses import replace

import httpx

from perdure_worker.executors.http_request import HttpRequest

REDIRECTS = frozenset({301, 302, 303, 307, 308})
USUAL_REDIRECTS = 5
FOLLOWING = frozenset({"GET", "HEAD"})

HARMLESS_HEADERS = frozenset({"accept", "accept-encoding", "accept-language", "user-agent"})
"""All that another origin gets to see; any other header may be a credential."""


class RedirectRefused(Exception):
    """The request does not go where the answer sends it."""


def most_redirects(request: HttpRequest, *, has_effect: bool) -> int:
    """Return how many redirects of a request are followed."""
    if request.method not in FOLLOWING or has_effect:
        return 0
    return USUAL_REDIRECTS if request.redirects is None else request.redirects


def is_redirect(request: HttpRequest, status: int, headers: httpx.Headers) -> bool:
    """Tell whether an answer sends the request on, unless the definition takes it as it is."""
    return status in REDIRECTS and "location" in headers and not request.accepts(status)


def redirected(request: HttpRequest, location: str) -> HttpRequest:
    """Return the request that goes on to `location`. Raises RedirectRefused."""
    url = _target(request.url, location)
    if url.scheme not in ("http", "https") or not url.host:
        raise RedirectRefused("it leads to what is no http or https URL")
    if url.userinfo:
        raise RedirectRefused("it leads to a URL with a user in it")
    if request.url.scheme == "https" and url.scheme == "http":
        raise RedirectRefused("it leads from https to http")
    if origin_of(url) == origin_of(request.url):
        return replace(request, url=url.copy_with(userinfo=request.url.userinfo))
    headers = {k: v for k, v in request.headers.items() if k.lower() in HARMLESS_HEADERS}
    return replace(request, url=url, headers=headers)


def _target(base: httpx.URL, location: str) -> httpx.URL:
    try:
        return base.copy_with(userinfo=b"").join(location)
    except (httpx.InvalidURL, ValueError) as error:
        raise RedirectRefused(f"it leads to what is no URL: {error}") from error


def origin_of(url: httpx.URL) -> tuple[str, str, int]:
    """Return scheme, host and port of a URL."""
    usual = 443 if url.scheme == "https" else 80
    return url.scheme, url.host, url.port or usual
