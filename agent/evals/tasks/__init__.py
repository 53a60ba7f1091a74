"""Tasks over worlds, tried many times: scored by the state that they leave, and what is said."""
