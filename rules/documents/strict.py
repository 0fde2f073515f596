"""The base of every part of a configuration file."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict

from epicenter.rules.model.times import duration_ns

DurationNs = Annotated[int, BeforeValidator(lambda text: duration_ns(str(text)), json_schema_input_type=str)]


class Strict(BaseModel):
    """Rejects unknown keys, and is immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)
