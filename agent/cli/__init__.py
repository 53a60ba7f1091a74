"""The command line: a file a command group.

Every import that costs something stands inside the function that needs it, so that ``--help``
loads Typer alone and the listings load no LangChain; a test holds both.
"""
