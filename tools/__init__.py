"""Domain tools: no language model, no graph. One file a domain, one contract for all."""
