"""Makes a job type, enqueues a mail for each reader in one call, and waits for them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from datetime import timedelta

import perdure
from perdure.times import duration

SCHEMA = {
    "type": "object",
    "required": ["to", "letter"],
    "additionalProperties": False,
    "properties": {
        "to": {"type": "string", "pattern": "@"},
        "letter": {"type": "string"},
        "language": {"enum": ["en", "de"], "default": "en"},
    },
}

RETRY = perdure.JobRetry(max=4, base=duration(timedelta(milliseconds=200)))


async def send(client: perdure.Client, letter: str, readers: Sequence[str]) -> list[perdure.Job]:
    """Send a letter to each reader, once however often this is called, and return the jobs."""
    await client.jobs.put_type(
        "mail", handler="mail.send", payload_schema=SCHEMA, retry=[RETRY], timeout=30
    )
    jobs = [
        perdure.NewJob(
            type="mail",
            payload={"to": reader, "letter": letter},
            idempotency_key=f"{letter}/{reader}",
            tags={"letter": letter},
        )
        for reader in readers
    ]
    results = await client.jobs.enqueue_many(jobs)
    return [await client.jobs.wait(result.job_id, timeout=60) for result in results]


async def main(readers: Sequence[str]) -> None:
    """Send the letter of May and print what became of it."""
    async with perdure.Client() as client:
        for job in await send(client, "may", readers):
            status = perdure.JobStatus.Name(job.status)
            print(job.job_id, status, job.output.decode() or job.last_error.code)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
