"""How far a worker reads ahead of the slowest partition."""

from __future__ import annotations

from aiokafka import TopicPartition

from epicenter.stream.kafka.alignment import MAX_AHEAD, MAX_UNCHANGED, WatermarkAlignment, time_of_mark, topic_of_mark

SLOW, FAST, OTHER = (TopicPartition("raw", number) for number in range(3))
ENDS = dict.fromkeys((SLOW, FAST, OTHER), 100)


def alignment(**count_by_time: int) -> WatermarkAlignment:
    """A worker that reads FAST and reports this progress at each time."""
    aligned = WatermarkAlignment()
    for time, count in count_by_time.items():
        aligned.record(FAST, int(time[1:]), count)
    return aligned


def seen(aligned: WatermarkAlignment, slow: tuple[int, str]) -> set[TopicPartition]:
    aligned.observe({SLOW: slow, FAST: (50, aligned.mark(FAST, "id"))}, ENDS)
    return aligned.too_far()


def test_partition_too_far_ahead_is_paused_until_the_slowest_catches_up() -> None:
    aligned = alignment(t10=MAX_AHEAD, t20=1)
    assert seen(aligned, (1, "id 5")) == {FAST}
    assert seen(aligned, (2, "id 9")) == {FAST}
    assert seen(aligned, (3, "id 10")) == set()


def test_few_records_may_be_any_time_ahead() -> None:
    assert seen(alignment(t10=1, t1000000=MAX_AHEAD - 1), (1, "id 5")) == set()


def test_slowest_partition_is_never_paused() -> None:
    aligned = alignment(t10=MAX_AHEAD, t20=MAX_AHEAD)
    aligned.record(SLOW, 5, MAX_AHEAD)
    assert seen(aligned, (1, aligned.mark(SLOW, "id"))) == {FAST}


def test_partition_read_to_its_end_holds_no_other_back() -> None:
    assert seen(alignment(t10=2 * MAX_AHEAD), (100, "id 5")) == set()


def test_partition_of_unknown_time_holds_no_other_back() -> None:
    assert seen(alignment(t10=2 * MAX_AHEAD), (1, "id")) == set()
    assert seen(alignment(t10=2 * MAX_AHEAD), (-1, "")) == set()


def test_older_time_of_a_partition_does_not_lower_its_newest() -> None:
    aligned = alignment(t20=MAX_AHEAD)
    aligned.record(FAST, 10, 1)
    assert time_of_mark(aligned.mark(FAST, "id")) == 20
    assert seen(aligned, (1, "id 15")) == {FAST}


def test_partition_without_progress_holds_the_others_back_for_a_limited_time() -> None:
    aligned = alignment(t10=2 * MAX_AHEAD)
    assert all(seen(aligned, (1, "id 5")) == {FAST} for _ in range(MAX_UNCHANGED))
    assert seen(aligned, (1, "id 5")) == set()
    aligned.record(FAST, 30, 2 * MAX_AHEAD)
    assert seen(aligned, (2, "id 6")) == {FAST}


def test_last_observation_counts_while_kafka_does_not_answer() -> None:
    aligned = alignment(t10=1)
    assert seen(aligned, (1, "id 5")) == set()
    aligned.record(FAST, 30, MAX_AHEAD)
    assert aligned.too_far() == {FAST}


def test_reassignment_drops_all_counts() -> None:
    aligned = alignment(t10=2 * MAX_AHEAD)
    aligned.forget()
    assert aligned.mark(FAST, "id") == "id"
    assert seen(aligned, (1, "id 5")) == set()


def test_offset_metadata_holds_topic_id_and_newest_event_time() -> None:
    words = alignment(t10=1).mark(FAST, "id")
    assert (topic_of_mark(words), time_of_mark(words)) == ("id", 10)
    assert (topic_of_mark("id"), time_of_mark("id")) == ("id", None)
    assert (topic_of_mark(""), time_of_mark("")) == ("", None)
    assert (topic_of_mark("id of another"), time_of_mark("id of another")) == ("id", None)
