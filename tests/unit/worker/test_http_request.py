import pytest
from perdure_worker.executors.http_request import RequestInvalid, read_request


def test_r12_the_body_is_cut_out_as_it_stands() -> None:
    data = b'\n{ "body" : [1.10,\t"\\ud800" , 1%s] ,"url":"http://u/", "method":"PUT"}\n' % (
        b"0" * 5000
    )
    request = read_request(data)
    assert request.body == b'[1.10,\t"\\ud800" , 1%s]' % (b"0" * 5000)
    assert (request.method, str(request.url)) == ("PUT", "http://u/")


def test_what_json_quotes_goes_out_unquoted_and_the_rest_as_written() -> None:
    request = read_request(
        b'{"method":"GET","url":"http://u/","headers":{"a":"x\\u0041","b":1.50,"c":true},"query":{"q":null}}'
    )
    assert request.headers == {"a": "xA", "b": "1.50", "c": "true"}
    assert str(request.url) == "http://u/?q=null"
    assert request.body is None


def test_the_accepted_statuses_replace_2xx() -> None:
    request = read_request(b'{"method":"GET","url":"http://u/","success":[404]}')
    assert (request.accepts(404), request.accepts(200)) == (True, False)
    assert read_request(b'{"method":"GET","url":"http://u/"}').accepts(299)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[1]",
        b'{"method":1,"url":"http://u/"}',
        b'{"method":"GET"}',
        b'{"method":"GET","url":""}',
        b'{"method":"GET" "url":"http://u/"}',
        b'{"method":"GET","url":"http://u/","headers":[]}',
        b'{"method":"GET","url":"http://u/","success":4}',
        b'{"method":"TRACE","url":"http://u/"}',
        b'{"method":"GET","url":"file:///etc/passwd"}',
        b'{"method":"GET","url":"http:///path"}',
        b'{"method":"GET","url":"http://u/","timeouts":{"connect":0}}',
        b'{"method":"GET","url":"http://u/","timeouts":{"read":"1e9"}}',
        b'{"method":"GET","url":"http://u/","redirects":11}',
        b'{"method":"GET","url":"http://u/","redirects":-1}',
        b'{"method":"GET","url":"http://u/","body":' + b"[" * 100_000,
        b"\xff",
    ],
)
def test_what_is_no_request_is_refused(data: bytes) -> None:
    with pytest.raises(RequestInvalid):
        read_request(data)


@pytest.mark.parametrize("value", ["a\\r\\nx: y", "a\\nx", "a\\u0000", "\\u00fc", "a\\u007f"])
def test_a_header_that_would_become_two_is_refused(value: str) -> None:
    data = f'{{"method":"GET","url":"http://u/","headers":{{"x":"{value}"}}}}'
    with pytest.raises(RequestInvalid, match="characters"):
        read_request(data.encode())


@pytest.mark.parametrize(
    "name", ["Content-Length", "transfer-encoding", "Host", "Connection", "Proxy-Authorization"]
)
def test_a_header_that_says_where_a_message_ends_or_goes_is_refused(name: str) -> None:
    data = f'{{"method":"POST","url":"http://u/","headers":{{"{name}":"5"}},"body":1}}'
    with pytest.raises(RequestInvalid, match="not the definition's"):
        read_request(data.encode())


def test_a_url_is_shown_without_what_may_be_secret() -> None:
    data = b'{"method":"GET","url":"https://me:pass@host:8443/path?token=1#part"}'
    assert read_request(data).shown == "GET https://host:8443/path"


def test_timeouts_and_redirects_are_read() -> None:
    request = read_request(
        b'{"method":"GET","url":"http://u/","timeouts":{"connect":2.5},"redirects":0}'
    )
    assert (request.timeouts.connect, request.timeouts.read, request.redirects) == (2.5, None, 0)
