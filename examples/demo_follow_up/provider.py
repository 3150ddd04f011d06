"""The outside world of the demo: a CRM, company data, and an email service that honours keys.

It counts what it did, not what it was asked: a second request under the same `Idempotency-Key` gets
the first one's answer and sends nothing. Every call is a line of its log. The first request for an
email is left without an answer, so that there is an open call to kill a worker in.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psutil

HELD_OPEN_AT_MOST = 60.0
"""Seconds that the first email request waits for the kill."""


class Provider:
    """Serves on a free loopback port and writes each call to `log`, a line of JSON each."""

    def __init__(self, log: Path) -> None:
        self.email_call_is_open = threading.Event()
        self.answer_open_call = threading.Event()
        self._log = log
        self._lock = threading.Lock()
        self._emails: dict[str, dict[str, Any]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_class(self))
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def emails_sent(self) -> int:
        """How many emails it really sent."""
        with self._lock:
            return len(self._emails)

    @contextmanager
    def serving(self) -> Iterator[Provider]:
        """Serve in a thread of its own."""
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.answer_open_call.set()
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def send_email(self, key: str, email: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """Send the email unless the key was seen before; return the answer and whether it was."""
        with self._lock:
            seen = key in self._emails
            if not seen:
                self._emails[key] = {"id": f"msg_{len(self._emails) + 1}", "to": email["to"]}
            return self._emails[key], seen

    def note(self, **facts: object) -> None:
        """Write a line of the log."""
        with self._lock, self._log.open("a", encoding="utf-8") as log:
            log.write(json.dumps(facts) + "\n")


def _handler_class(provider: Provider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """One call."""

        def do_GET(self) -> None:
            """Look something up."""
            parts = urlsplit(self.path)
            email = parse_qs(parts.query)["email"][0]
            provider.note(call=parts.path, caller=_caller(self.client_address[1]))
            name = email.partition("@")[2].partition(".")[0].title()
            found = {"/crm/contacts": {"id": "c_42"}, "/companies": {"name": name}}
            self._answer(found[parts.path])

        def do_POST(self) -> None:
            """Send an email."""
            email = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            key = self.headers["Idempotency-Key"]
            answer, seen = provider.send_email(key, email)
            caller = _caller(self.client_address[1])
            provider.note(call="/emails", key=key, caller=caller, sent=not seen)
            if not seen:
                provider.email_call_is_open.set()
                provider.answer_open_call.wait(HELD_OPEN_AT_MOST)
            self._answer(answer)

        def _answer(self, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            try:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except ConnectionError:
                provider.note(call=self.path, answer="nobody was there to take it")

        def log_message(self, *_: object) -> None:
            """Say nothing on the terminal; the log file has it."""

    return Handler


def _caller(port: int) -> int | None:
    """Return the process, among this one's descendants, that calls from `port`."""
    for process in psutil.Process().children(recursive=True):
        try:
            connections = process.net_connections(kind="tcp")
        except psutil.Error:
            continue
        if any(one.laddr.port == port for one in connections):
            return int(process.pid)
    return None
