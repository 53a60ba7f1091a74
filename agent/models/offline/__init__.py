"""A rule-based chat model that needs no key and works with whatever tools are bound.

``model`` is the LangChain class; a step goes through ``conversation`` (what is asked, over all
turns) → ``request`` and ``entities`` (clauses and values) → ``choose`` and ``fill`` (which tool,
which arguments, over ``catalog`` and ``words``) → ``plan`` (what to do next, with ``evidence``,
``conditions``, ``repair`` and ``research``) → ``answer`` (sentences from results).
"""

from agent.models.offline.model import OfflineChatModel

__all__ = ["OfflineChatModel"]
