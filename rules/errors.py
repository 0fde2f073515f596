"""The error tree: the class says what to do."""

from __future__ import annotations

from rules.model import DeadLetterKind


class PipelineError(Exception):
    """Base of every error that we raise on purpose; the message tells what was found and what to do."""


class ConfigError(PipelineError):
    """A settings or rule file is wrong: stop at the start. `problems` holds one line for each."""

    def __init__(self, problems: list[str]):
        super().__init__("\n".join(problems))
        self.problems = problems


class RecordError(PipelineError):
    """This record can never be processed: dead-letter it, as this kind, and go on."""

    def __init__(self, reason: str, kind: DeadLetterKind = DeadLetterKind.UNKNOWN):
        super().__init__(reason)
        self.kind = kind


class InputError(PipelineError):
    """An input can't be read: the command ends with exit code 66."""


class TransientError(PipelineError):
    """A broker, a store or a target is away or busy: wait and try again, for as long as it asked for if it did."""

    retry_after_s: float | None = None


class RejectedError(PipelineError):
    """The store will never take this batch, or a target this message."""


class InvariantError(PipelineError):
    """Our own bug: crash without a commit."""
