import uuid

import pytest
from perdure_machine.slots import SLOTS, job_of, slot_of
from perdure_streams.names import Queue, StreamName


def test_one_hash_tag_holds_a_stream_and_its_memory() -> None:
    stream = StreamName(Queue("io", "acme"), 3)
    assert str(stream) == "perdure:{io:acme:3}"
    assert stream.memory_key == "perdure:{io:acme:3}:memory"
    assert stream.turn_key == "perdure:{io:acme:3}:turn"


def test_one_hash_tag_holds_the_announcements_of_a_queue() -> None:
    queue = Queue("io", "acme")
    assert queue.workers_key == "perdure:{io:acme}:workers"
    assert queue.free_key("w-1") == "perdure:{io:acme}:free:w-1"


def test_an_owner_may_hold_any_character() -> None:
    queue = Queue("io", "a:b{c}")
    assert Queue.parse(str(queue)) == queue


@pytest.mark.parametrize("text", ["", "io", ":acme", "io:"])
def test_a_queue_without_lane_or_owner_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="lane:owner"):
        Queue.parse(text)


def test_a_queue_has_one_stream_per_shard() -> None:
    assert [stream.shard for stream in Queue("io", "x").streams(3)] == [0, 1, 2]


def test_a_step_keeps_its_slot_over_releases() -> None:
    assert slot_of(uuid.UUID("01890000-0000-7000-8000-000000000001"), 7) == 61


def test_slots_spread_steps_evenly() -> None:
    run_id = uuid.UUID("01890000-0000-7000-8000-000000000001")
    counts = [0] * SLOTS
    for step in range(1, 100 * SLOTS + 1):
        counts[slot_of(run_id, step)] += 1
    assert min(counts) > 50
    assert max(counts) < 200


@pytest.mark.parametrize(("workflow", "job"), [("", -(1 << 31)), ("order", 1965659032)])
def test_a_job_keeps_its_number_over_releases(workflow: str, job: int) -> None:
    assert job_of(workflow) == job
