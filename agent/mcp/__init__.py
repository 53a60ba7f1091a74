"""The MCP host: servers that a person configured, as tools with contracts.

``configuration`` reads which servers there are (``servers``), ``pins`` keeps what a person has
confirmed of them. ``connection`` is one server for whoever calls its tools: ``opening`` holds its
session (a ``link``) over a ``transport``, ``asking`` carries one request up to what became of it
(``errors``), ``under_way`` knows the calls and puts the server's ``questions`` to the person.
``definitions`` looks at what a server lists, ``tools`` makes LangChain tools of that, ``results``
reads what calls give, ``offers`` its resources and prompts. ``host`` holds all servers together,
and ``waiting`` shows which of them a start waits for.

Nothing outside this package imports the MCP SDK or its LangChain adapter. This file imports
nothing, so that reading a configuration costs none of them.
"""
