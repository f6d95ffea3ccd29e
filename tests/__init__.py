"""The tests. A real package on purpose: verl installs a top-level `tests` that would win over a namespace package."""
