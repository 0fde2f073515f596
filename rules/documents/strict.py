"""The base of every part of a configuration file."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator

from epicenter.rules.documents.mistakes import name_known_keys
from epicenter.rules.model.times import duration_ns

DurationNs = Annotated[int, BeforeValidator(lambda text: duration_ns(str(text)), json_schema_input_type=str)]


class Strict(BaseModel):
    """Rejects unknown keys, naming the known ones, and is immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="wrap")
    @classmethod
    def _validate(cls, content: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return validate(content)
        except ValidationError as error:
            known = (field.alias or name for name, field in cls.model_fields.items())
            raise name_known_keys(error, known) from None
