"""What every record is: frozen, closed to unknown fields, canonical as JSON."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, StringConstraints

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""A SHA-256 digest as 64 lower-case hex digits."""


class Record(BaseModel):
    """A frozen value that may cross a stage."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON values."""
        return self.model_dump(mode="json")
