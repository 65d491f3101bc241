"""Budgets for kernels: figures of a profile against numbers, what is needed, and a recorded baseline."""

from tilewright.check.baseline import Baseline, read_baseline
from tilewright.check.budget import Budget, parse_budget
from tilewright.check.config import Config, Entry, find_config, read_config
from tilewright.check.figures import FIGURES, Figure, Reading
from tilewright.check.judge import Broken, Verdict, judge

__all__ = [
    "FIGURES",
    "Baseline",
    "Broken",
    "Budget",
    "Config",
    "Entry",
    "Figure",
    "Reading",
    "Verdict",
    "find_config",
    "judge",
    "parse_budget",
    "read_baseline",
    "read_config",
]
