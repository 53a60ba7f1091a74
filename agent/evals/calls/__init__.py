"""Whether a model's calls are the ones that were wanted: single replies, nothing is executed."""
