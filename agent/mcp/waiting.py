"""Which servers a start waits for, so that a person can see it and go on without them.

A server whose tools are pinned is not waited for. This file imports little: the chat shows it
while everything else is still being loaded.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any


class Waiting:
    """Shared by the host, which waits, and by whoever shows that; made before either.

    Attributes:
        begun: The host has begun to open its servers.
    """

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self._opening: Mapping[str, asyncio.Future[Any]] = {}
        self._since = 0.0
        self._enough: asyncio.Future[None] | None = None

    @property
    def servers(self) -> tuple[str, ...]:
        """The names of those that are waited for now, in their order."""
        return tuple(name for name, opening in self._opening.items() if not opening.done())

    @property
    def seconds(self) -> float:
        """For how long they have been waited for."""
        return time.monotonic() - self._since if self._opening else 0.0

    def go_on(self) -> None:
        """Wait no longer. A server that is ready later is then late, and not lost."""
        if self._enough is not None and not self._enough.done():
            self._enough.set_result(None)

    async def until_opened(self, opening: Mapping[str, asyncio.Future[Any]]) -> None:
        """Wait until all of these are done, well or not, or somebody has said to go on."""
        self._opening, self._since = opening, time.monotonic()
        self._enough = asyncio.get_running_loop().create_future()
        self.begun.set()
        try:
            while (left := {one for one in opening.values() if not one.done()}) and (
                not self._enough.done()
            ):
                awaited: set[asyncio.Future[Any]] = {*left, self._enough}
                await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._opening, self._enough = {}, None
