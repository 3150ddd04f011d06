"""Becomes a program that cannot outlive the process that asked for it.

Run by path, as the first program of every process that this library starts::

    python -I -S child.py --parent PID --signal N [--user UID:GID] [--lifeline FD] -- PROGRAM ARG...

It gives up root if told to, ties itself to its parent and then replaces itself by PROGRAM, so
process id, signals and exit status are the program's own. Where the kernel can signal a child
whose parent died (Linux) it is asked to; elsewhere ``--lifeline`` names the reading end of a pipe
whose writing end only the parent holds, and a watchdog sends the signal when that end closes.
The tie is made after the change of user, which would undo it.
"""

import argparse
import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1
CANNOT_RUN = 127
ORPHANED = 126


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="perdure_stack.child")
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--signal", type=int, required=True)
    parser.add_argument("--user", default=None)
    parser.add_argument("--lifeline", type=int, default=None)
    parser.add_argument("program", nargs="+")
    return parser.parse_args(arguments)


def _become(user: str) -> None:
    uid, gid = (int(part) for part in user.split(":"))
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def tie_by_kernel(libc: ctypes.CDLL, number: int) -> None:
    """Let the kernel send this process a signal when its parent dies; Linux only."""
    if libc.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")


def _tie_by_lifeline(number: int, lifeline: int) -> None:
    program = os.getpid()
    if os.fork() != 0:
        os.close(lifeline)
        return
    os.setsid()
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)
    while os.read(lifeline, 1):
        pass
    # A program that is gone has left its number to others; its orphan has another parent then.
    if os.getppid() == program:
        os.kill(program, number)
    os._exit(0)


def main(arguments: list[str]) -> int:
    """Become the program; return only when that is not possible or the parent is already gone."""
    options = _options(arguments)
    libc = ctypes.CDLL(None, use_errno=True)
    if options.user is not None:
        _become(options.user)
    if options.lifeline is not None:
        _tie_by_lifeline(options.signal, options.lifeline)
    else:
        tie_by_kernel(libc, options.signal)
        if os.getppid() != options.parent:
            return ORPHANED
    try:
        os.execv(options.program[0], options.program)
    except OSError as error:
        print(f"cannot run {options.program[0]}: {error.strerror}", file=sys.stderr)
        return CANNOT_RUN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
