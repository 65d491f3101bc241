"""Worked examples, run step by step with any numbers: numpy, on the real number formats and the real block manager."""

from tilewright.byhand.registry import WALKTHROUGHS, find
from tilewright.byhand.trace import Step, Trace
from tilewright.byhand.values import Parameter, Walkthrough

__all__ = ["WALKTHROUGHS", "Parameter", "Step", "Trace", "Walkthrough", "find"]
