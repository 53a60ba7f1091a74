"""What is allowed, asked or denied, and why: rules, their scopes, and the verdict."""

from agent.policy.evaluate import evaluate
from agent.policy.scopes import covers, is_about

__all__ = ["covers", "evaluate", "is_about"]
