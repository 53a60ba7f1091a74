"""sayso: an agent that acts on your say-so."""

__version__ = "0.1.0"
