"""Time limits that keep nothing alive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import Context


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """``asyncio.timeout`` whose timer does not hold on to the caller's context.

    A timer that is no longer needed stays in the event loop until its time comes, with the
    context it was made in. Inside a graph that context reaches the whole message history: every
    call would keep a copy of it for as long as the call might have lasted.

    Raises:
        TimeoutError: The block took longer.
    """
    async with asyncio.timeout(None) as limit:
        Context().run(limit.reschedule, asyncio.get_running_loop().time() + seconds)
        yield
