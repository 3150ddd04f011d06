"""The outside world of the example: a bank, a CRM, a fax, letters and points.

Bank and letters honour `Idempotency-Key`; CRM and points make a record at each call, but can be
asked for a reference; the fax can do neither. `python provider.py` breaks the connection of each
first call after its work was done, and prints what really was done.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

PORT = 7600
KEYED = frozenset({"payments", "letters"})
SERVICES = frozenset({"payments", "contacts", "faxes", "letters", "points"})

Record = dict[str, Any]


class Outside:
    """What was asked and what was done, by service; the first call of each of `dropped` breaks."""

    def __init__(self, dropped: frozenset[str] = frozenset()) -> None:
        self.asked: Counter[str] = Counter()
        self.looked_up: Counter[str] = Counter()
        self.done: dict[str, list[Record]] = {name: [] for name in SERVICES}
        self._dropped = dropped
        self._lock = threading.Lock()

    def perform(self, service: str, key: str, given: Mapping[str, Any]) -> Record | None:
        """Do what is asked and return the record of it; None if the connection is to break."""
        with self._lock:
            self.asked[service] += 1
            record = self._of_key(service, key) if service in KEYED else None
            if record is None:
                record = {"id": f"{service}-{len(self.done[service]) + 1}", "key": key, **given}
                self.done[service].append(record)
            is_first = self.asked[service] == 1
            return None if is_first and service in self._dropped else record

    def look_up(self, service: str, reference: str) -> Record | None:
        """Find the record of a reference."""
        with self._lock:
            self.looked_up[service] += 1
            for record in self.done[service]:
                if record.get("reference") == reference:
                    return record
            return None

    def _of_key(self, service: str, key: str) -> Record | None:
        return next((each for each in self.done[service] if each["key"] == key), None)


@contextmanager
def serving(outside: Outside, port: int = 0) -> Iterator[str]:
    """Serve on a port of loopback, a free one for 0; yield the address."""
    server = ThreadingHTTPServer(("127.0.0.1", port), _handler_class(outside))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler_class(outside: Outside) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Perform."""
            given = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))))
            key = self.headers.get("Idempotency-Key", "")
            record = outside.perform(self.path.strip("/"), key, given)
            if record is None:
                self.close_connection = True
            else:
                self._answer(201, record)

        def do_GET(self) -> None:
            """Look up."""
            service, _, reference = self.path.strip("/").partition("/")
            record = outside.look_up(service, unquote(reference))
            self._answer(404 if record is None else 200, record)

        def _answer(self, status: int, record: Record | None) -> None:
            body = json.dumps(record).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


def main() -> None:
    """Serve until it is interrupted."""
    outside = Outside(dropped=SERVICES)
    with serving(outside, PORT) as address:
        print(f"serving at {address}; stop with Ctrl-C")
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            for service in sorted(SERVICES):
                asked, done = outside.asked[service], len(outside.done[service])
                print(f"{service}: called {asked} times, done {done} times")


if __name__ == "__main__":
    main()
