"""What requests may hold, as the contracts say."""

from __future__ import annotations

from perdure_runtime.rpc.options import MAX_MESSAGE_BYTES

MAX_PAYLOAD_BYTES = 1024 * 1024
MAX_PAYLOAD_DEPTH = 100
MAX_DOCUMENT_BYTES = 1024 * 1024

MAX_NAME = 200
"""Characters of a workflow's name."""

MAX_NODE = 63
MAX_NODES = 1000
"""Nodes that a migration may map."""

MAX_SCOPE = 1000
"""Characters of a scope's path: the deepest with the longest ids is shorter."""

MAX_START_KEY = 200
MAX_REQUEST_ID = 200
MAX_SIGNAL_NAME = 200
MAX_SIGNAL_KEY = 200
MAX_SIGNAL_ID = 200
MAX_CALLBACK = 4000
MAX_REASON = 1000
MAX_CODE = 200
MAX_EFFECT_KEY = 1500
MAX_EFFECT_CODE = 120

MAX_TAGS = 20
MAX_TAG_KEY = 60
MAX_TAG_VALUE = 200

MIN_PRIORITY, MAX_PRIORITY = -100, 100

MAX_WEIGHT = 100
"""Of an org: rows that it sends in each of its turns."""

DEFAULT_PAGE = 100
DEFAULT_HISTORY_PAGE = 1000
MAX_PAGE = 1000

MAX_VERSION = 2**31 - 1

MAX_JOBS = 1000
"""Jobs that one call may enqueue."""

MAX_TEMPLATE = 2000
"""Characters of an expression of a job type."""

MAX_RETRY_RULES = 20

MAX_RUN_IDS = 1000
"""Runs that a migration may name."""

MAX_DRY_RUN = 100
"""Runs that one page of a dry run looks at."""

DEFAULT_FINDINGS = 100
MAX_FINDINGS = 1000

MAX_SLOTS = 10_000
MAX_RATE = 100_000.0
MAX_BURST = 1_000_000
MAX_URL = 2000
MAX_CREDENTIAL_BYTES = 16 * 1024
MAX_OPEN_SECONDS = 600.0

MAX_PAGE_BYTES = 2 * 1024 * 1024
"""A page ends early when it has grown to this, so that it always fits into a message (F091)."""

MAX_RUN_PAYLOADS = MAX_MESSAGE_BYTES - 512 * 1024
"""Bytes of payloads that GetRun answers with; the rest of a message is room for everything else."""
