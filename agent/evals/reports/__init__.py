"""Runs that were kept, told: as a page, for a CI server, beside an earlier run."""
