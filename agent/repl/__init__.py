"""The terminal chat. ``agent.repl.app.chat`` runs it; nothing here imports LangChain.

From the outside in, each knowing only those after it: ``app`` reads and hands on; ``commands``;
``talk``, the open session and its turns; ``desk``, what waits and its answers; ``questions`` and
``prompts``, where a person answers; ``panel``, ``render``, ``markdown`` and ``status``, what is
drawn; ``starting``, ``keys`` and ``screen``, what it all stands on; ``ports``, what is needed of
the application.
"""
