"""Mistakes in kernel source, found by reading it: nothing is compiled, imported or run."""

from tilewright.lint.files import IMPORTS, Result, lint_text, python_files
from tilewright.lint.mistake import LEVELS, LintRule, Mistake
from tilewright.lint.rules import RULES, rule

__all__ = ["IMPORTS", "LEVELS", "RULES", "LintRule", "Mistake", "Result", "lint_text", "python_files", "rule"]
