"""Benchmarks: ratios measured in one run, on the machine that runs them."""
