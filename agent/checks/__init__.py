"""Plain functions from a proposed call to errors and verdicts; no side effects, no graph."""
