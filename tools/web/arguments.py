"""The arguments of the web tools."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from tools.web.addresses import MAX_URL, read_url

MAX_RESULTS = 10


def _plain(url: str) -> str:
    """The URL as it is asked for.

    Raises:
        ValueError: It is none of the web.
    """
    try:
        return str(read_url(url.strip()))
    except ValueError as error:
        raise ValueError(f"This url cannot be fetched: {error}.") from None


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")


class WebSearch(_Arguments):
    """Arguments of ``web_search``."""

    query: str = Field(
        min_length=2,
        max_length=300,
        description="A few words that the page should contain. They are sent to the search "
        "service: nothing private.",
        examples=["heat pump noise limits 2026"],
    )
    count: int = Field(5, ge=1, le=MAX_RESULTS, description="How many results at most.")


class WebFetch(_Arguments):
    """Arguments of ``web_fetch``."""

    url: Annotated[
        str,
        Field(
            min_length=8,
            max_length=MAX_URL,
            description="The page's address, https:// or http://, as a search, a page or the user "
            "gave it.",
            examples=["https://www.example.org/report"],
        ),
        AfterValidator(_plain),
    ]
    offset: int = Field(
        0, ge=0, le=10_000_000, description="Characters of the text to leave out, to read on."
    )
    links: bool = Field(
        False,
        description="Instead of the article all text of the page, with the address of each link.",
    )
