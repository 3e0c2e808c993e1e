"""Benchmarks (`make bench`): ours against the released code and against goals, in one run."""
