"""How messages reach a server and come back: a child process, or the network.

``wire`` is what both have in common: messages, and what became of a request.
"""
