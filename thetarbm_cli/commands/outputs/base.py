"""What the models of all outputs share, and the parts that more than one has."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Output(BaseModel):
    """A JSON object whose fields are described by the line under them."""

    model_config = ConfigDict(use_attribute_docstrings=True)


Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]
Percent = Annotated[float, Field(ge=0, le=100)]
Gamma = Annotated[float, Field(ge=0)]
Checksum = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Splits(Output):
    """Images in each part."""

    train: Count
    valid: Count
    test: Count


class GridPoint(Output):
    """One pair that a grid search tried."""

    C: float
    gamma: float
    validation_error_percent: Percent


class GridSearch(Output):
    """The SVM with C and γ chosen on the validation images."""

    C: float
    gamma: float
    validation_error_percent: Percent
    test_error_percent: Percent
    grid: list[GridPoint]
