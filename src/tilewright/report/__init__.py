"""Profiles as a person reads them: in words and tables in the terminal, or as JSON with a published schema."""

from tilewright.report.compare import print_configs, print_side_by_side
from tilewright.report.explain import print_profile
from tilewright.report.page import Page
from tilewright.report.schema import schema, schema_names

__all__ = ["Page", "print_configs", "print_profile", "print_side_by_side", "schema", "schema_names"]
