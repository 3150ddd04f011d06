"""A gRPC method called through all services, and its effect (R8)."""

from __future__ import annotations

from grpc import StatusCode
from perdure_testkit.grpc_provider import METHOD, SERVICE, GrpcProvider, Said

from tests.e2e.scene import SHARED_ENGINE, Scene, outcomes, step_of

pytestmark = SHARED_ENGINE


async def test_a_grpc_step_calls_a_method_through_all_services(scene: Scene) -> None:
    provider = GrpcProvider()
    await provider.start()
    provider.script(Said(status=StatusCode.UNAVAILABLE))
    call = {"target": provider.target, "service": SERVICE, "method": METHOD, "plaintext": True}
    call |= {"request": {"cents": "${input.cents}"}, "effect": "provider"}
    nodes = {"charge": {"grpc": call, "retry": {"max": 3, "base": "50ms"}}}

    run = await scene.completed(await scene.start(nodes, {"cents": 1990}))

    (effect,) = run.effects
    assert (effect.status, effect.calls) == ("settled", 2)
    assert provider.times_worked(effect.key) == 1
    assert outcomes(step_of(run, "charge")) == ["failed", "completed"]
    assert step_of(run, "charge").output == b'{"id":"c1","cents":"1990","worked":1}'
    await provider.stop()
