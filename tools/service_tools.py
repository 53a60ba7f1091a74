"""What tools over a service share: its errors in a contract's words, findings, records as text.

A service is any of ``tools.worlds`` that raises the errors of ``tools.worlds.service``; whether it
is in this process or behind HTTP makes no difference here.
"""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from tools.contract import (
    Finding,
    OutcomeUnknown,
    Preview,
    ToolFailure,
    TransientFailure,
    current_call,
)
from tools.worlds.amounts import minor_units, money
from tools.worlds.service import Busy, ServiceError, Unconfirmed


class Strict(BaseModel):
    """Arguments or a result: no other fields."""

    model_config = ConfigDict(extra="forbid")


def _as_text(value: object) -> object:
    """A JSON number is taken by its text; ``True`` is an ``int`` in Python and is refused."""
    return repr(value) if type(value) in (int, float) else value


def _positive(value: str) -> str:
    minor = minor_units(value)
    if minor == 0:
        raise ValueError("an amount is more than 0.00")
    return money(minor)


AmountText = Annotated[
    str,
    Field(
        pattern=r"^[0-9]{1,7}(\.[0-9]{1,2})?$",
        examples=["12.50", "129.00"],
    ),
    AfterValidator(_positive),
    BeforeValidator(_as_text),
]
"""A positive amount as a decimal string with a point, normally with two decimals."""


def idempotency_key() -> str:
    """The harness's key; a call from elsewhere counts as a request of its own."""
    return current_call.get().idempotency_key or f"direct-{uuid.uuid4()}"


@contextmanager
def service_errors() -> Iterator[None]:
    """A service's errors in the words of ``tools.contract``."""
    try:
        yield
    except Busy as error:
        when = f"in {error.retry_after:g} seconds" if error.retry_after else "later"
        raise TransientFailure(f"{error} Try the same call again {when}.") from error
    except ServiceError as error:
        raise ToolFailure(str(error)) from error
    except Unconfirmed as error:
        raise OutcomeUnknown(str(error)) from error


def finding(ask: Callable[[], Finding]) -> Finding:
    """What a look at the record finds; a record that cannot be read has told nothing."""
    try:
        return ask()
    except (ServiceError, Unconfirmed) as error:
        return Finding(None, f"The record could not be read: {error}")


def as_object(result: object) -> Mapping[str, Any]:
    """A tool's result as the JSON object it is; empty when it is none."""
    return result if isinstance(result, Mapping) else {}


def preview_change(summary: str, before: str, after: str) -> Preview:
    """A preview with the difference of two texts."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), "before", "after", n=99
    )
    return Preview(summary, before, after, "".join(lines))
