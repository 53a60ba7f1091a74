"""The terminal chat. ``agent.repl.app.chat`` runs it; nothing here imports LangChain."""
