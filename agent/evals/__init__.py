"""Evaluation: simulated reviewers, and driving whole sessions with them."""
