"""Where a redirect may lead, and what may go there."""

import httpx
import pytest
from perdure_worker.executors.http_redirects import (
    RedirectRefused,
    is_redirect,
    most_redirects,
    redirected,
)
from perdure_worker.executors.http_request import HttpRequest, Timeouts

HEADERS = {"Authorization": "secret", "X-Api-Key": "secret", "Accept-Language": "de"}


def request(url: str = "https://me:pass@one.example/a", **more: object) -> HttpRequest:
    usual: dict[str, object] = {
        "method": "GET", "headers": HEADERS, "body": None, "success": frozenset(),
        "timeouts": Timeouts(), "redirects": None,
    }  # fmt: skip
    return HttpRequest(url=httpx.URL(url), **(usual | more))  # type: ignore[arg-type]


def test_on_the_same_origin_everything_goes_along() -> None:
    found = redirected(request(), "/b?c=1")
    assert (str(found.url), found.headers) == ("https://me:pass@one.example/b?c=1", HEADERS)


@pytest.mark.parametrize(
    "location",
    [
        "https://two.example/",
        "https://one.example:8443/",
        "//two.example/",
        "https://ONE.example.:1/",
    ],
)
def test_to_another_origin_nothing_goes_that_may_be_a_credential(location: str) -> None:
    found = redirected(request(), location)
    assert found.headers == {"Accept-Language": "de"}
    assert not found.url.userinfo


def test_from_http_to_https_of_the_same_host_is_another_origin() -> None:
    found = redirected(request("http://one.example/a"), "https://one.example/a")
    assert found.headers == {"Accept-Language": "de"}


@pytest.mark.parametrize(
    "location",
    [
        "http://one.example/b",
        "ftp://one.example/b",
        "file:///etc/passwd",
        "https://you:pass@two.example/",
    ],
)
def test_a_redirect_is_refused_that_leads_where_nothing_may_go(location: str) -> None:
    with pytest.raises(RedirectRefused):
        redirected(request(), location)


@pytest.mark.parametrize(
    ("method", "redirects", "has_effect", "most"),
    [
        ("GET", None, False, 5),
        ("HEAD", 2, False, 2),
        ("GET", 0, False, 0),
        ("GET", None, True, 0),
        ("POST", None, False, 0),
        ("DELETE", 3, False, 0),
    ],
)
def test_only_what_changes_nothing_is_sent_on(
    method: str, redirects: int | None, has_effect: bool, most: int
) -> None:
    found = request(method=method, redirects=redirects)
    assert most_redirects(found, has_effect=has_effect) == most


def test_a_redirect_that_the_definition_accepts_is_an_answer() -> None:
    headers = httpx.Headers({"location": "/b"})
    assert is_redirect(request(), 302, headers)
    assert not is_redirect(request(), 304, headers)
    assert not is_redirect(request(), 302, httpx.Headers())
    assert not is_redirect(request(success=frozenset({302})), 302, headers)
