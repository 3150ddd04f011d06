"""`python -m perdure_worker`: a worker process."""

import sys

from perdure_runtime.process import run_service

from perdure_worker.app import build
from perdure_worker.config import WorkerConfig

if __name__ == "__main__":
    sys.exit(run_service(WorkerConfig, build))
