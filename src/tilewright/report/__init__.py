"""Profiles as a person reads them: in words and tables in the terminal, or as JSON with a published schema."""

from tilewright.report.captured import print_capture, print_overview
from tilewright.report.compare import print_configs, print_side_by_side
from tilewright.report.difference import print_difference
from tilewright.report.explain import print_listings, print_profile
from tilewright.report.listing import LISTINGS
from tilewright.report.page import Page
from tilewright.report.schema import schema, schema_names

__all__ = [
    "LISTINGS",
    "Page",
    "print_capture",
    "print_configs",
    "print_difference",
    "print_listings",
    "print_overview",
    "print_profile",
    "print_side_by_side",
    "schema",
    "schema_names",
]
