import pytest
from perdure_worker.executors.http_request import RequestInvalid, read_request


def test_r12_the_body_is_cut_out_as_it_stands() -> None:
    data = b'\n{ "body" : [1.10,\t"\\ud800" , 1%s] ,"url":"u", "method":"PUT"}\n' % (b"0" * 5000)
    request = read_request(data)
    assert request.body == b'[1.10,\t"\\ud800" , 1%s]' % (b"0" * 5000)
    assert (request.method, request.url) == ("PUT", "u")


def test_what_json_quotes_goes_out_unquoted_and_the_rest_as_written() -> None:
    request = read_request(
        b'{"method":"GET","url":"u","headers":{"a":"x\\u00e9","b":1.50,"c":true},"query":{"q":null}}'
    )
    assert request.headers == {"a": "xé", "b": "1.50", "c": "true"}
    assert request.query == {"q": "null"}
    assert request.body is None


def test_the_accepted_statuses_replace_2xx() -> None:
    request = read_request(b'{"method":"GET","url":"u","success":[404]}')
    assert (request.accepts(404), request.accepts(200)) == (True, False)
    assert read_request(b'{"method":"GET","url":"u"}').accepts(299)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[1]",
        b'{"method":1,"url":"u"}',
        b'{"method":"GET"}',
        b'{"method":"GET","url":""}',
        b'{"method":"GET" "url":"u"}',
        b'{"method":"GET","url":"u","headers":[]}',
        b'{"method":"GET","url":"u","success":4}',
        b'{"method":"GET","url":"u","body":' + b"[" * 100_000,
        b"\xff",
    ],
)
def test_what_is_no_request_is_refused(data: bytes) -> None:
    with pytest.raises(RequestInvalid):
        read_request(data)
