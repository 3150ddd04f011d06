"""The CRM of the example: it wants a token, bears few calls at once, is down and renews its token.

`python provider.py` serves at port 7601, is down for its first three calls, and takes another token
after the fourth contact. It prints what was asked of it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

PORT = 7601
FIRST_TOKEN, SECOND_TOKEN = "token-of-monday", "token-of-tuesday"
CALL_SECONDS = 0.05


class Crm:
    """Contacts by name. So many calls find it `down`; after `renews_after` contacts it wants the
    second token.
    """

    def __init__(self, *, down: int = 3, renews_after: int = 4) -> None:
        self.contacts: dict[str, int] = {}
        self.refused = 0
        self.failed = 0
        self.most_at_once = 0
        self._at_once = 0
        self._down = down
        self._renews_after = renews_after
        self._lock = threading.Lock()

    @property
    def token(self) -> str:
        """The token that it takes."""
        return FIRST_TOKEN if len(self.contacts) < self._renews_after else SECOND_TOKEN

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Count a call while it is under way."""
        with self._lock:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            time.sleep(CALL_SECONDS)
            yield
        finally:
            with self._lock:
                self._at_once -= 1

    def answer(self, method: str, path: str, authorization: str) -> tuple[int, object]:
        """Return status and body."""
        with self._lock:
            if self.failed < self._down:
                self.failed += 1
                return 503, {"error": "down for a moment"}
            if authorization != f"Bearer {self.token}":
                self.refused += 1
                return 401, {"error": "this token is not valid any more"}
            if method == "PUT":
                name = unquote(path.rpartition("/")[2])
                self.contacts[name] = self.contacts.get(name, 0) + 1
                return 200, {"name": name}
            return 200, sorted(self.contacts)


@contextmanager
def serving(crm: Crm, port: int = 0) -> Iterator[str]:
    """Serve on a port of loopback, a free one for 0; yield the address."""
    server = ThreadingHTTPServer(("127.0.0.1", port), _handler_class(crm))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler_class(crm: Crm) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """List."""
            self._serve()

        def do_PUT(self) -> None:
            """Enter."""
            self._serve()

        def _serve(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            with crm.busy():
                authorization = self.headers.get("Authorization", "")
                status, told = crm.answer(self.command, self.path, authorization)
                body = json.dumps(told).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            """Say what was asked and answered, without the token."""
            print(self.command, self.path, args[1] if len(args) > 1 else "")

    return Handler


def main() -> None:
    """Serve until it is interrupted."""
    crm = Crm()
    with serving(crm, PORT) as address:
        print(f"serving at {address}; stop with Ctrl-C")
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print(f"{len(crm.contacts)} contacts; never more than {crm.most_at_once} calls at once")


if __name__ == "__main__":
    main()
