"""Stands between a PostgreSQL client and its server, and cuts their connections when told to."""

from __future__ import annotations

import select
import socket
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

_PIECE = 65536
_NAME = ".s.PGSQL.5432"


class Proxy:
    """A server's Unix socket in another folder, from ``with`` to its end.

    Args:
        folder: Where clients find it.
        server: The folder of the server's own socket.

    Attributes:
        has_cut: Whether it has, since it was last told to.
    """

    def __init__(self, folder: Path, server: Path) -> None:
        self.folder, self.server = folder, server
        self._left, self._after = 0, False
        self.has_cut = False

    def cut(self, nth: int, *, after: bool) -> None:
        """Cut a connection at the n-th thing from now on that a client asks of the server.

        Args:
            after: The server still gets it and does it; its answer is lost.
        """
        self._left, self._after, self.has_cut = nth, after, False

    def __enter__(self) -> Self:
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(self.folder / _NAME))
        self._listening.listen()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """One connection, until either side ends it or it is cut."""
        with suppress(OSError), client, socket.socket(socket.AF_UNIX) as server:
            server.connect(str(self.server / _NAME))
            while True:
                ready, _, _ = select.select([client, server], [], [])
                source, target = (server, client) if server in ready else (client, server)
                if not (piece := source.recv(_PIECE)):
                    return
                cuts = source is client and self._is_the_one()
                if cuts and not self._after:
                    return
                target.sendall(piece)
                if cuts:
                    server.recv(_PIECE)  # it has done it
                    return

    def _is_the_one(self) -> bool:
        self._left -= 1
        self.has_cut = self.has_cut or self._left == 0
        return self._left == 0
