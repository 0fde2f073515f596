"""The error tree: the class decides what to do."""

from __future__ import annotations

from enum import StrEnum


class DeadLetterKind(StrEnum):
    """Why a record could not be processed. The values are stored and sent, so they never change."""

    UNKNOWN = ""
    """Written by a version without kinds, or by a newer one with more kinds."""

    EMPTY = "empty"
    TOO_LARGE = "too-large"
    NOT_JSON = "not-json"
    WRONG_SHAPE = "wrong-shape"
    NO_LOG_LINE = "no-log-line"
    """A record of another product, such as a metric or a trace."""

    CORRUPT_BATCH = "corrupt-batch"
    """A whole Kafka batch that can't be unpacked; its bytes are no record."""

    NOT_OURS = "not-ours"
    """A message on our own topics that we did not write or can't read."""

    ROW_REFUSED = "row-refused"
    NOTIFICATION_REFUSED = "notification-refused"

    @classmethod
    def _missing_(cls, value: object) -> DeadLetterKind:
        return cls.UNKNOWN


class PipelineError(Exception):
    """Base of every error that we raise on purpose; the message has what was found and what to do."""


class ConfigError(PipelineError):
    """A settings or rule file is wrong: stop at the start. `problems` holds one line for each."""

    def __init__(self, problems: list[str]):
        super().__init__("\n".join(problems))
        self.problems = problems


class RecordError(PipelineError):
    """This record can never be processed: dead-letter it as this kind, and continue."""

    def __init__(self, reason: str, kind: DeadLetterKind = DeadLetterKind.UNKNOWN):
        super().__init__(reason)
        self.kind = kind


class InputError(PipelineError):
    """An input can't be read: the command ends with exit code 66."""


class TransientError(PipelineError):
    """A broker, store or target is unavailable or busy: wait (`retry_after_s` if it sent one) and try again."""

    retry_after_s: float | None = None


class RejectedError(PipelineError):
    """The store will never take this batch, or a target this message."""


class InvariantError(PipelineError):
    """Our own bug: crash without a commit."""
