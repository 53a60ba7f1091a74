"""Search by DuckDuckGo's page without scripts, by the library ``ddgs``: no key is needed.

The library makes the request and reads the page of results. Its one engine is used, not its
choice among many: the effects of a call name the host that a query goes to. A refusal, which the
library takes for "nothing found", is told apart here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tools.contract import TransientFailure
from tools.web.addresses import read_url

URL = "https://html.duckduckgo.com/html/"
HOST = read_url(URL).host
SECONDS = 15
MAX_TITLE = 200  # characters
MAX_SNIPPET = 500


@dataclass(frozen=True)
class Hit:
    """A page that was found; its words are those of strangers."""

    title: str
    url: str
    snippet: str


Search = Callable[[str], Sequence[Hit]]
"""From a query to pages, best first.

Raises:
    TransientFailure: The search did not answer.
"""


def duckduckgo(query: str, *, url: str = URL) -> list[Hit]:
    """The first page of results.

    Raises:
        TransientFailure: The service cannot be reached, or refuses to answer for now.
    """
    from ddgs.engines.duckduckgo import Duckduckgo
    from ddgs.exceptions import DDGSException, TimeoutException

    class Engine(Duckduckgo):
        search_url = url

        def request(self, *args: object, **kwargs: object) -> str:
            response = self.http_client.request(*args, **kwargs)
            if response.status_code != 200:
                raise _no_answer(
                    f"does not answer searches now (HTTP {response.status_code}): too many came "
                    "from here"
                )
            return str(response.text)

    try:
        found = Engine(timeout=SECONDS).search(query) or []
    except TransientFailure:
        raise
    except TimeoutException as error:
        raise _no_answer(f"did not answer within {SECONDS} seconds") from error
    except DDGSException as error:
        raise _no_answer("could not be reached") from error
    except Exception as error:  # whatever its page made of the library
        raise _no_answer("answered in a way that could not be read") from error
    return [hit for result in found if (hit := _hit(result.title, result.href, result.body))]


def _no_answer(why: str) -> TransientFailure:
    return TransientFailure(
        f"{HOST} {why}. Try once more in a minute, or fetch a page whose address you know."
    )


def _hit(title: str, url: str, snippet: str) -> Hit | None:
    """A result, bounded; ``None`` where its address is none that could be fetched."""
    try:
        address = str(read_url(url))
    except ValueError:
        return None
    return Hit(_bounded(title, MAX_TITLE), address, _bounded(snippet, MAX_SNIPPET))


def _bounded(text: str, limit: int) -> str:
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return words if len(words) <= limit else words[: limit - 1] + "…"
