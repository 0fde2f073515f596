"""How far a worker reads ahead of the slowest partition."""

from __future__ import annotations

from aiokafka import TopicPartition

from epicenter.stream.kafka.alignment import MAX_AHEAD, MAX_LOOKS, WatermarkAlignment, time_of_mark, topic_of_mark

SLOW, FAST, OTHER = (TopicPartition("raw", number) for number in range(3))
ENDS = dict.fromkeys((SLOW, FAST, OTHER), 100)


def alignment(**told_by_time: int) -> WatermarkAlignment:
    """A worker that reads FAST, and told so much of it at each time."""
    one = WatermarkAlignment()
    for time, count in told_by_time.items():
        one.note(FAST, int(time[1:]), count)
    return one


def seen(one: WatermarkAlignment, slow: tuple[int, str]) -> set[TopicPartition]:
    one.look({SLOW: slow, FAST: (50, one.mark(FAST, "id"))}, ENDS)
    return one.too_far()


def test_what_is_too_far_ahead_waits_until_the_slowest_has_come_nearer() -> None:
    one = alignment(t10=MAX_AHEAD, t20=1)
    assert seen(one, (1, "id 5")) == {FAST}
    assert seen(one, (2, "id 9")) == {FAST}
    assert seen(one, (3, "id 10")) == set()


def test_little_may_be_any_time_ahead() -> None:
    assert seen(alignment(t10=1, t1000000=MAX_AHEAD - 1), (1, "id 5")) == set()


def test_the_slowest_never_waits() -> None:
    one = alignment(t10=MAX_AHEAD, t20=MAX_AHEAD)
    one.note(SLOW, 5, MAX_AHEAD)
    assert seen(one, (1, one.mark(SLOW, "id"))) == {FAST}


def test_nobody_waits_for_what_is_read_to_its_end() -> None:
    assert seen(alignment(t10=2 * MAX_AHEAD), (100, "id 5")) == set()


def test_nobody_waits_for_a_partition_whose_time_is_unknown() -> None:
    assert seen(alignment(t10=2 * MAX_AHEAD), (1, "id")) == set()
    assert seen(alignment(t10=2 * MAX_AHEAD), (-1, "")) == set()


def test_an_older_time_of_a_partition_takes_nothing_back() -> None:
    one = alignment(t20=MAX_AHEAD)
    one.note(FAST, 10, 1)
    assert time_of_mark(one.mark(FAST, "id")) == 20
    assert seen(one, (1, "id 15")) == {FAST}


def test_a_partition_that_is_stuck_does_not_stop_the_others_for_ever() -> None:
    one = alignment(t10=2 * MAX_AHEAD)
    assert all(seen(one, (1, "id 5")) == {FAST} for _ in range(MAX_LOOKS))
    assert seen(one, (1, "id 5")) == set()
    one.note(FAST, 30, 2 * MAX_AHEAD)
    assert seen(one, (2, "id 6")) == {FAST}


def test_while_kafka_does_not_answer_the_last_look_counts() -> None:
    one = alignment(t10=1)
    assert seen(one, (1, "id 5")) == set()
    one.note(FAST, 30, MAX_AHEAD)
    assert one.too_far() == {FAST}


def test_after_partitions_changed_hands_nothing_of_before_counts() -> None:
    one = alignment(t10=2 * MAX_AHEAD)
    one.forget()
    assert one.mark(FAST, "id") == "id"
    assert seen(one, (1, "id 5")) == set()


def test_a_mark_says_whose_offset_it_is_and_how_far_time_was() -> None:
    words = alignment(t10=1).mark(FAST, "id")
    assert (topic_of_mark(words), time_of_mark(words)) == ("id", 10)
    assert (topic_of_mark("id"), time_of_mark("id")) == ("id", None)
    assert (topic_of_mark(""), time_of_mark("")) == ("", None)
    assert (topic_of_mark("id of another"), time_of_mark("id of another")) == ("id", None)
