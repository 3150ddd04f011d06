"""Lanes and the weights of orgs: what operators set."""

from __future__ import annotations

from collections.abc import Sequence

from perdure_contracts.v1 import lane_service_pb2, lane_service_pb2_grpc

from perdure.client_transport import Transport


class Lanes:
    """A client's calls about lanes. Every method raises as those of `Client` do."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._stub = lane_service_pb2_grpc.LaneServiceStub(transport.channel)

    async def list(self) -> Sequence[lane_service_pb2.Lane]:
        """Read every lane."""
        request = lane_service_pb2.ListLanesRequest()
        return (await self._transport.call(self._stub.ListLanes, request)).lanes

    async def get(self, lane: str) -> lane_service_pb2.Lane:
        """Read one lane."""
        request = lane_service_pb2.GetLaneRequest(lane=lane)
        return (await self._transport.call(self._stub.GetLane, request)).lane

    async def put(
        self, request: lane_service_pb2.PutLaneRequest
    ) -> lane_service_pb2.PutLaneResponse:
        """Make a lane, or change what the request gives."""
        return await self._transport.call(self._stub.PutLane, request)

    async def delete(self, lane: str, reason: str = "") -> None:
        """Remove a lane that no published workflow uses."""
        request = lane_service_pb2.DeleteLaneRequest(lane=lane, reason=reason)
        await self._transport.call(self._stub.DeleteLane, request)

    async def weights(self) -> Sequence[lane_service_pb2.OrgWeight]:
        """Read how many steps each org may send in each of its turns."""
        request = lane_service_pb2.ListOrgWeightsRequest()
        return (await self._transport.call(self._stub.ListOrgWeights, request)).weights

    async def put_weight(self, org: str, weight: int, reason: str = "") -> None:
        """Set it for an org."""
        request = lane_service_pb2.PutOrgWeightRequest(org=org, weight=weight, reason=reason)
        await self._transport.call(self._stub.PutOrgWeight, request)
