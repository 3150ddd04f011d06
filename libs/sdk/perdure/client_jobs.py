"""Jobs: single units of work of registered types."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from perdure_contracts.v1 import job_pb2, job_service_pb2_grpc, run_pb2
from perdure_contracts.v1 import job_service_pb2 as pb

from perdure.client_transport import Transport
from perdure.payload import to_payload
from perdure.start_keys import key_or_own
from perdure.times import duration, timestamp

ANY_STATUS = job_pb2.JOB_STATUS_UNSPECIFIED


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job to enqueue.

    `payload` is a value, or bytes that are JSON already; None is `{}`. It may begin at once, or at
    `available_at`, or `available_after` seconds later. Without an `idempotency_key` the client
    makes one for its own repeats.
    """

    type: str
    payload: object = None
    idempotency_key: str | None = None
    available_at: datetime | None = None
    available_after: timedelta | float | None = None
    priority: int = 0
    tags: Mapping[str, str] = field(default_factory=dict)

    def message(self) -> pb.EnqueueJobRequest:
        """Return the job as it is sent."""
        return pb.EnqueueJobRequest(
            type=self.type,
            payload=b"" if self.payload is None else to_payload(self.payload),
            idempotency_key=key_or_own(self.idempotency_key),
            available_at=timestamp(self.available_at),
            available_after=duration(self.available_after),
            priority=self.priority,
            tags=self.tags,
        )


class Jobs:
    """A client's calls about jobs. Every method raises as those of `Client` do."""

    def __init__(
        self, transport: Transport, wait_run: Callable[[str, float | None], Awaitable[run_pb2.Run]]
    ) -> None:
        self._transport = transport
        self._wait_run = wait_run
        self._stub = job_service_pb2_grpc.JobServiceStub(transport.channel)

    async def put_type(
        self,
        name: str,
        *,
        handler: str = "",
        http: object = None,
        payload_schema: object = None,
        lane: str = "",
        connection: str = "",
        retry: Sequence[job_pb2.JobRetry] = (),
        timeout: timedelta | float | None = None,
        subject: str = "",
        purpose: str = "",
    ) -> pb.PutJobTypeResponse:
        """Make a job type or its next version: a handler's name, or an http call.

        `http` and `payload_schema` are values, or bytes that are JSON already. The content of the
        latest version gives that version back, with `created` false. Raises FIELD_INVALID with all
        problems in `fields`.
        """
        spec = job_pb2.JobSpec(
            lane=lane,
            connection=connection,
            payload_schema=b"" if payload_schema is None else to_payload(payload_schema),
            retry=retry,
            timeout=duration(timeout),
            subject=subject,
            purpose=purpose,
        )
        if http is not None:
            spec.http = to_payload(http)
        if handler:
            spec.handler = handler
        request = pb.PutJobTypeRequest(name=name, spec=spec)
        return await self._transport.call(self._stub.PutJobType, request)

    async def get_type(self, name: str, version: int = 0) -> job_pb2.JobType:
        """Read one version of a job type; version 0 is the latest."""
        request = pb.GetJobTypeRequest(name=name, version=version)
        return (await self._transport.call(self._stub.GetJobType, request)).job_type

    async def list_types(self) -> AsyncGenerator[job_pb2.JobType, None]:
        """Yield the latest version of every job type, by name, without specs."""
        request = pb.ListJobTypesRequest()
        while True:
            page = await self._transport.call(self._stub.ListJobTypes, request)
            for each in page.job_types:
                yield each
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def enqueue(
        self,
        type: str,  # noqa: A002 - the name that the API uses
        payload: object = None,
        *,
        idempotency_key: str | None = None,
        available_at: datetime | None = None,
        available_after: timedelta | float | None = None,
        priority: int = 0,
        tags: Mapping[str, str] | None = None,
    ) -> pb.EnqueueJobResponse:
        """Enqueue a job, as `NewJob` says, and return its id.

        The same request under the same key gives the first job back, `created` false; another
        raises JOB_ALREADY_ENQUEUED with that job's id in `metadata`. A payload that does not fit
        the type raises FIELD_INVALID with every field in `fields`.
        """
        job = NewJob(
            type=type,
            payload=payload,
            idempotency_key=idempotency_key,
            available_at=available_at,
            available_after=available_after,
            priority=priority,
            tags=tags or {},
        )
        return await self.enqueue_one(job)

    async def enqueue_one(self, job: NewJob) -> pb.EnqueueJobResponse:
        """Enqueue a job, as `enqueue`."""
        return await self._transport.call(self._stub.EnqueueJob, job.message())

    async def enqueue_many(self, jobs: Iterable[NewJob]) -> Sequence[pb.EnqueueJobsResult]:
        """Enqueue up to 1000 jobs; each answer has a `job_id`, or a `refusal` that says why not.

        If one of them is malformed, or its payload does not fit, none is enqueued, and
        FIELD_INVALID names every such field as `jobs[2].payload.to`.
        """
        request = pb.EnqueueJobsRequest(jobs=[job.message() for job in jobs])
        return (await self._transport.call(self._stub.EnqueueJobs, request)).results

    async def get(self, job_id: str) -> job_pb2.Job:
        """Read a job with its tries."""
        request = pb.GetJobRequest(job_id=job_id)
        return (await self._transport.call(self._stub.GetJob, request)).job

    async def wait(self, job_id: str, timeout: float | None = None) -> job_pb2.Job:
        """Wait until a job has ended and return it; raises TimeoutError after `timeout` seconds."""
        await self._wait_run(job_id, timeout)
        return await self.get(job_id)

    async def list(
        self,
        *,
        type: str = "",  # noqa: A002 - the name that the API uses
        status: job_pb2.JobStatus.ValueType = ANY_STATUS,
        tags: Mapping[str, str] | None = None,
        created_from: datetime | None = None,
        created_before: datetime | None = None,
        page_size: int = 0,
    ) -> AsyncGenerator[job_pb2.Job, None]:
        """Yield jobs, newest first, without payloads and tries; a filter left out matches all."""
        request = pb.ListJobsRequest(
            type=type,
            status=status,
            tags=tags or {},
            created_from=timestamp(created_from),
            created_before=timestamp(created_before),
            page_size=page_size,
        )
        while True:
            page = await self._transport.call(self._stub.ListJobs, request)
            for job in page.jobs:
                yield job
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def cancel(self, job_id: str, reason: str = "") -> bool:
        """End a job at once; return whether that changed it. Raises RUN_CLOSED if it has ended."""
        request = pb.CancelJobRequest(job_id=job_id, reason=reason)
        return (await self._transport.call(self._stub.CancelJob, request)).changed

    async def replay(self, job_id: str, reason: str = "") -> bool:
        """Try a failed job again; return whether that changed it.

        Raises RUN_CLOSED if it did not end failed, and EFFECT_UNRESOLVED if its outside call may
        have been performed.
        """
        request = pb.ReplayJobRequest(job_id=job_id, reason=reason)
        return (await self._transport.call(self._stub.ReplayJob, request)).changed

    async def dead(
        self,
        *,
        type: str = "",  # noqa: A002 - the name that the API uses
        code: str = "",
        page_size: int = 0,
    ) -> AsyncGenerator[pb.DeadJob, None]:
        """Yield jobs that failed for good, the newest first; a filter left out matches all."""
        request = pb.ListDeadJobsRequest(type=type, code=code, page_size=page_size)
        while True:
            page = await self._transport.call(self._stub.ListDeadJobs, request)
            for job in page.dead_jobs:
                yield job
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def replay_dead(
        self,
        *,
        type: str = "",  # noqa: A002 - the name that the API uses
        code: str = "",
        limit: int = 0,
        reason: str = "",
    ) -> pb.ReplayDeadJobsResponse:
        """Have the dead jobs that match now replayed, at most `limit` of them, 0 for 1000."""
        request = pb.ReplayDeadJobsRequest(type=type, code=code, limit=limit, reason=reason)
        return await self._transport.call(self._stub.ReplayDeadJobs, request)
