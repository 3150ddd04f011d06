"""`perdure.v1.JobService`; each method names its caller and delegates to its handler."""

from __future__ import annotations

from perdure_contracts.v1 import job_service_pb2 as pb
from perdure_contracts.v1 import job_service_pb2_grpc
from perdure_runtime.gate.identity import Context, Identify

from perdure_ingest.doors import Doors
from perdure_ingest.handlers.jobs.change_jobs import cancel_job, replay_job
from perdure_ingest.handlers.jobs.dead_jobs import list_dead_jobs, replay_dead_jobs
from perdure_ingest.handlers.jobs.enqueue import enqueue_job
from perdure_ingest.handlers.jobs.enqueue_many import enqueue_jobs
from perdure_ingest.handlers.jobs.put_type import put_job_type
from perdure_ingest.handlers.jobs.read_jobs import get_job, list_jobs
from perdure_ingest.handlers.jobs.read_types import get_job_type, list_job_types


class JobServicer(job_service_pb2_grpc.JobServiceServicer):
    """Single units of work of registered types."""

    def __init__(self, doors: Doors, identify: Identify) -> None:
        self._doors = doors
        self._identify = identify

    async def PutJobType(
        self, request: pb.PutJobTypeRequest, context: Context
    ) -> pb.PutJobTypeResponse:
        """Delegate."""
        return await put_job_type(self._doors, self._identify(context), request)

    async def GetJobType(
        self, request: pb.GetJobTypeRequest, context: Context
    ) -> pb.GetJobTypeResponse:
        """Delegate."""
        return await get_job_type(self._doors, self._identify(context), request)

    async def ListJobTypes(
        self, request: pb.ListJobTypesRequest, context: Context
    ) -> pb.ListJobTypesResponse:
        """Delegate."""
        return await list_job_types(self._doors, self._identify(context), request)

    async def EnqueueJob(
        self, request: pb.EnqueueJobRequest, context: Context
    ) -> pb.EnqueueJobResponse:
        """Delegate."""
        return await enqueue_job(self._doors, self._identify(context), request)

    async def EnqueueJobs(
        self, request: pb.EnqueueJobsRequest, context: Context
    ) -> pb.EnqueueJobsResponse:
        """Delegate."""
        return await enqueue_jobs(self._doors, self._identify(context), request)

    async def GetJob(self, request: pb.GetJobRequest, context: Context) -> pb.GetJobResponse:
        """Delegate."""
        return await get_job(self._doors, self._identify(context), request)

    async def ListJobs(self, request: pb.ListJobsRequest, context: Context) -> pb.ListJobsResponse:
        """Delegate."""
        return await list_jobs(self._doors, self._identify(context), request)

    async def CancelJob(
        self, request: pb.CancelJobRequest, context: Context
    ) -> pb.CancelJobResponse:
        """Delegate."""
        return await cancel_job(self._doors, self._identify(context), request)

    async def ReplayJob(
        self, request: pb.ReplayJobRequest, context: Context
    ) -> pb.ReplayJobResponse:
        """Delegate."""
        return await replay_job(self._doors, self._identify(context), request)

    async def ListDeadJobs(
        self, request: pb.ListDeadJobsRequest, context: Context
    ) -> pb.ListDeadJobsResponse:
        """Delegate."""
        return await list_dead_jobs(self._doors, self._identify(context), request)

    async def ReplayDeadJobs(
        self, request: pb.ReplayDeadJobsRequest, context: Context
    ) -> pb.ReplayDeadJobsResponse:
        """Delegate."""
        return await replay_dead_jobs(self._doors, self._identify(context), request)
