"""The releases as a table: which has which rule and which fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eagerbuf.releases import releases

if TYPE_CHECKING:
    from pandas import DataFrame


def release_table() -> DataFrame:
    """Every release: its sizing rule (NaN without an eager runner), and which faults it has.

    Columns: release, newest_file, sizing_rule, probe_overflows (the first fault), hangs_if_it_fails
    (the second; elsewhere one TP rank that fails alone still hangs), probe_clipped,
    extend_autotune.
    """
    import pandas as pd

    rows = [
        {
            "release": known.release,
            "newest_file": known.newest_file,
            "sizing_rule": known.sizing_rule,
            "probe_overflows": known.sizing_rule == "pr28386",
            "hangs_if_it_fails": not known.profile_failure_broadcast,
            "probe_clipped": known.probe_clipped_to_context,
            "extend_autotune": known.extend_autotune,
        }
        for known in releases()
    ]
    frame = pd.DataFrame(rows)
    rule = frame.sizing_rule
    return frame.assign(sizing_rule=rule.where(rule.notna(), float("nan")))  # None in pandas 2
