"""One concern a file. The order, outermost first, is set in ``agent.graph``:

``context`` (what the model is shown) → ``proposal`` (what becomes of its reply) on the way to
the model; ``approval`` (a person) → ``execution`` (the binding check, the ledger) on the way to
a tool.
"""
