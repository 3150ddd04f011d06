from uuid import UUID

from perdure_worker.hand_out import IDS_AT_ONCE, new_lease_id


def test_each_lease_id_is_a_new_random_uuid() -> None:
    ids = [UUID(new_lease_id()) for _ in range(3 * IDS_AT_ONCE)]
    assert len(set(ids)) == len(ids)
    assert {one.version for one in ids} == {4}
    assert {one.variant for one in ids} == {"specified in RFC 4122"}
