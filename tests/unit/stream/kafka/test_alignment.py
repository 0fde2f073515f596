"""How far a worker reads ahead of the slowest partition."""

from __future__ import annotations

from aiokafka import TopicPartition

from epicenter.stream.kafka.alignment import MAX_AHEAD, MAX_UNCHANGED, WatermarkAlignment, time_of_mark, topic_of_mark

SLOW, FAST, OTHER = (TopicPartition("raw", number) for number in range(3))
ENDS = dict.fromkeys((SLOW, FAST, OTHER), 100)


def alignment(**count_by_time: int) -> WatermarkAlignment:
    """A worker that reads FAST, and told so much of it at each time."""
    aligned = WatermarkAlignment()
    for time, count in count_by_time.items():
        aligned.record(FAST, int(time[1:]), count)
    return aligned


def seen(aligned: WatermarkAlignment, slow: tuple[int, str]) -> set[TopicPartition]:
    aligned.observe({SLOW: slow, FAST: (50, aligned.mark(FAST, "id"))}, ENDS)
    return aligned.too_far()


def test_what_is_too_far_ahead_waits_until_the_slowest_has_come_nearer() -> None:
    aligned = alignment(t10=MAX_AHEAD, t20=1)
    assert seen(aligned, (1, "id 5")) == {FAST}
    assert seen(aligned, (2, "id 9")) == {FAST}
    assert seen(aligned, (3, "id 10")) == set()


def test_little_may_be_any_time_ahead() -> None:
    assert seen(alignment(t10=1, t1000000=MAX_AHEAD - 1), (1, "id 5")) == set()


def test_the_slowest_never_waits() -> None:
    aligned = alignment(t10=MAX_AHEAD, t20=MAX_AHEAD)
    aligned.record(SLOW, 5, MAX_AHEAD)
    assert seen(aligned, (1, aligned.mark(SLOW, "id"))) == {FAST}


def test_nobody_waits_for_what_is_read_to_its_end() -> None:
    assert seen(alignment(t10=2 * MAX_AHEAD), (100, "id 5")) == set()


def test_nobody_waits_for_a_partition_whose_time_is_unknown() -> None:
    assert seen(alignment(t10=2 * MAX_AHEAD), (1, "id")) == set()
    assert seen(alignment(t10=2 * MAX_AHEAD), (-1, "")) == set()


def test_an_older_time_of_a_partition_takes_nothing_back() -> None:
    aligned = alignment(t20=MAX_AHEAD)
    aligned.record(FAST, 10, 1)
    assert time_of_mark(aligned.mark(FAST, "id")) == 20
    assert seen(aligned, (1, "id 15")) == {FAST}


def test_a_partition_that_is_stuck_does_not_stop_the_others_for_ever() -> None:
    aligned = alignment(t10=2 * MAX_AHEAD)
    assert all(seen(aligned, (1, "id 5")) == {FAST} for _ in range(MAX_UNCHANGED))
    assert seen(aligned, (1, "id 5")) == set()
    aligned.record(FAST, 30, 2 * MAX_AHEAD)
    assert seen(aligned, (2, "id 6")) == {FAST}


def test_while_kafka_does_not_answer_the_last_look_counts() -> None:
    aligned = alignment(t10=1)
    assert seen(aligned, (1, "id 5")) == set()
    aligned.record(FAST, 30, MAX_AHEAD)
    assert aligned.too_far() == {FAST}


def test_after_partitions_changed_hands_nothing_of_before_counts() -> None:
    aligned = alignment(t10=2 * MAX_AHEAD)
    aligned.forget()
    assert aligned.mark(FAST, "id") == "id"
    assert seen(aligned, (1, "id 5")) == set()


def test_a_mark_says_whose_offset_it_is_and_how_far_time_was() -> None:
    words = alignment(t10=1).mark(FAST, "id")
    assert (topic_of_mark(words), time_of_mark(words)) == ("id", 10)
    assert (topic_of_mark("id"), time_of_mark("id")) == ("id", None)
    assert (topic_of_mark(""), time_of_mark("")) == ("", None)
    assert (topic_of_mark("id of another"), time_of_mark("id of another")) == ("id", None)
