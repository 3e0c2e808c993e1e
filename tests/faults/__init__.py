"""Faults in the ranks of `run_hang`, drawn from a seed and injected from outside."""
