"""From settings to a verdict: what is unknown, what overflows or hangs, the report."""
