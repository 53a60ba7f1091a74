"""The injection suites: what a model that obeys every planted instruction can still not do.

``case.py`` says what a case is, ``worst_case.py`` is the model that is fooled, ``reviewer.py`` the
person who decides, ``defences.py`` the switches, ``policies`` the files of rules. ``running.py``
runs a case as a real session, ``report.py`` counts, ``bounds.py`` holds the figures against what
was reached before. The suites are ``agentdojo.py``, ``injecagent.py`` and ``own``.
"""
