"""A program that polls for tasks with the testkit's handlers: `-m perdure_testkit.polling`."""

from __future__ import annotations

import perdure

from perdure_testkit.step_handlers import handlers

MODULE = "perdure_testkit.polling"

DRAIN_SECONDS = 0.1

if __name__ == "__main__":
    # One at a time: without room it has no poll open, so a stalled one is handed nothing.
    perdure.PollingWorker(handlers, slots=1, drain_seconds=DRAIN_SECONDS).run_until_signalled()
