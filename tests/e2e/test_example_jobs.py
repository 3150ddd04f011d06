"""The example that sends mails, as a reader runs it: of its jobs one is tried again, one dead."""

from __future__ import annotations

import json

from perdure import Job, JobStatus

from examples.send_mails.send import send
from tests.e2e.scene import SHARED_ENGINE, Scene

pytestmark = SHARED_ENGINE

READERS = ("ann@here.example", "bob@busy.example", "eve@nowhere.example")


def codes(job: Job) -> list[str]:
    return [one.error.code for one in job.attempts]


async def test_each_reader_gets_one_mail_however_often_it_is_sent(scene: Scene) -> None:
    ann, bob, eve = await send(scene.client, "june", READERS)
    assert json.loads(ann.output) == {"mail": "june for ann@here.example", "language": "en"}
    assert (bob.status, codes(bob)) == (JobStatus.JOB_STATUS_COMPLETED, ["BUSY", ""])
    assert (eve.status, codes(eve)) == (JobStatus.JOB_STATUS_FAILED, ["NO_SUCH_ADDRESS"])
    assert eve.last_error.code == "NO_SUCH_ADDRESS"

    again = await send(scene.client, "june", READERS)
    assert [job.job_id for job in again] == [ann.job_id, bob.job_id, eve.job_id]
    dead = [job.job_id async for job in scene.client.jobs.dead(type="mail")]
    assert dead == [eve.job_id]


async def test_a_job_that_is_one_http_call_makes_it(scene: Scene) -> None:
    path = scene.new_path()
    await scene.client.jobs.put_type(
        "ping",
        http={
            "method": "POST",
            "url": scene.provider.url(path),
            "body": "${input}",
            "effect": "provider",
        },
    )
    made = await scene.client.jobs.enqueue("ping", b'{"n": 18446744073709551616}')
    job = await scene.client.jobs.wait(made.job_id, timeout=30)
    assert job.status == JobStatus.JOB_STATUS_COMPLETED, job
    assert json.loads(job.output)["status"] == 200
    (call,) = scene.provider.calls_of(path)
    assert call.body == b'{"n": 18446744073709551616}'
