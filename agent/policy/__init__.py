"""What is allowed, asked or denied, and why: files of rules, a session's rules, the verdict.

``decide`` is the entry: from a ``Policy`` (the files) and a ``Proposed`` call to an ``Outcome``.
``read_policy`` makes a file's text into rules, or says everything that is wrong with it.
"""

from agent.policy.cases import always, run_cases
from agent.policy.catalogue import Catalogue, KnownTool, catalogue_of
from agent.policy.decide import Outcome, Policy, Proposed, decide
from agent.policy.explain import Explanation, explain
from agent.policy.facts import Money, Spent, money_of
from agent.policy.model import STRICTNESS, Case, Layer, PolicyFile, Rule
from agent.policy.profiles import PROFILES, authority_of_new, granted_by
from agent.policy.prospect import Prospect, prospect
from agent.policy.reading import read_call, read_policy
from agent.policy.scopes import covers, is_about

__all__ = [
    "PROFILES",
    "STRICTNESS",
    "Case",
    "Catalogue",
    "Explanation",
    "KnownTool",
    "Layer",
    "Money",
    "Outcome",
    "Policy",
    "PolicyFile",
    "Proposed",
    "Prospect",
    "Rule",
    "Spent",
    "always",
    "authority_of_new",
    "catalogue_of",
    "covers",
    "decide",
    "explain",
    "granted_by",
    "is_about",
    "money_of",
    "prospect",
    "read_call",
    "read_policy",
    "run_cases",
]
