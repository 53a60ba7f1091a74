"""The injection suites: what a model that obeys every planted instruction can still not do.

``case.py`` says what a case is, ``worst_case.py`` is the model that is fooled, ``reviewer.py`` the
person who decides, ``defences.py`` the switches, ``running.py`` runs a case as a real session,
``report.py`` counts. The suites are ``agentdojo.py``, ``injecagent.py`` and ``own.py``.
"""
