"""A program that plays a service, run by path: answers /readyz, /env and /die, keeps a journal."""

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType

NAME = sys.argv[1]


def note(what: str) -> None:
    with Path(os.environ["FAKE_JOURNAL"]).open("a", encoding="utf-8") as journal:
        journal.write(f"{NAME} {what}\n")


class Ops(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/die":
            os.kill(os.getpid(), signal.SIGKILL)
        unready = "FAKE_UNREADY" in os.environ and self.path == "/readyz"
        self.send_response(503 if unready else 200)
        self.end_headers()
        self.wfile.write(json.dumps(dict(os.environ)).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Say nothing: the log is for what a test looks for."""


def stop(_number: int, _frame: FrameType | None) -> None:
    note("stop")
    os._exit(0)


def main() -> int:
    if NAME == "store":
        note(" ".join(sys.argv[2:4]))
        print("the migration speaks", flush=True)
        return int(os.environ.get("FAKE_MIGRATE_STATUS", "0"))
    if "FAKE_EXIT" in os.environ:
        print("cannot go on", flush=True)
        return int(os.environ["FAKE_EXIT"])
    signal.signal(signal.SIGTERM, signal.SIG_IGN if "FAKE_STUBBORN" in os.environ else stop)
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ["PERDURE_OPS_PORT"])), Ops)
    note("start")
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
