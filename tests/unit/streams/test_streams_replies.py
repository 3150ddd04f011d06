from perdure_streams.replies import RawEntry, read_autoclaim, read_group

ENTRY = (b"5-0", {b"org": b"acme"})


def test_a_read_that_found_nothing_is_empty() -> None:
    assert read_group(None) == {}
    assert read_group([]) == {}


def test_entries_are_told_apart_by_stream() -> None:
    assert read_group([[b"a", [ENTRY]], [b"b", []]]) == {
        "a": [RawEntry("5-0", {b"org": b"acme"})],
        "b": [],
    }


def test_f083_nil_entries_of_a_server_before_7_are_counted() -> None:
    claimed = read_autoclaim([b"9-0", [None, ENTRY, (None, None)]])
    assert claimed.cursor == "9-0"
    assert [entry.entry_id for entry in claimed.entries] == ["5-0"]
    assert claimed.vanished == 2


def test_f083_deleted_ids_of_a_newer_server_need_no_answer() -> None:
    claimed = read_autoclaim([b"0-0", [ENTRY], [b"4-0"]])
    assert len(claimed.entries) == 1
    assert claimed.vanished == 0
