"""A program that plays a service, run by path: answers /readyz, /env and /die, keeps a journal.

It speaks as little HTTP as a test needs, because what a library for it takes to import is most of
what starting seven of them takes.
"""

import json
import os
import signal
import socket
import sys
from types import FrameType

NAME = sys.argv[1]


def note(what: str) -> None:
    with open(os.environ["FAKE_JOURNAL"], "a", encoding="utf-8") as journal:
        journal.write(f"{NAME} {what}\n")


def answer(connection: socket.socket) -> None:
    path = connection.makefile("rb").readline().split(b" ")[1]
    if path == b"/die":
        os.kill(os.getpid(), signal.SIGKILL)
    unready = path == b"/readyz" and "FAKE_UNREADY" in os.environ
    status = b"503 Service Unavailable" if unready else b"200 OK"
    body = json.dumps(dict(os.environ)).encode()
    connection.sendall(b"HTTP/1.1 " + status + b"\r\nConnection: close\r\n\r\n" + body)
    # A close with unread requests in the buffer would reset the answer away.
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(4096):
        pass


def stop(_number: int, _frame: FrameType | None) -> None:
    note("stop")
    os._exit(0)


def serve() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN if "FAKE_STUBBORN" in os.environ else stop)
    with socket.create_server(("127.0.0.1", int(os.environ["PERDURE_OPS_PORT"]))) as server:
        note("start")
        while True:
            connection, _ = server.accept()
            with connection:
                answer(connection)


def main() -> int:
    if NAME == "store":
        note(" ".join(sys.argv[2:4]))
        print("the migration speaks", flush=True)
        return int(os.environ.get("FAKE_MIGRATE_STATUS", "0"))
    if "FAKE_EXIT" in os.environ:
        print("cannot go on", flush=True)
        return int(os.environ["FAKE_EXIT"])
    serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
