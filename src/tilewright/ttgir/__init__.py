"""Layouts and shared memory as the middle end decided them, read from TTGIR text."""

from tilewright.ttgir.ir import Module, Operation, located, parse
from tilewright.ttgir.layouts import DotLayout, dot_layout
from tilewright.ttgir.summary import Buffer, Dot, Layout, Trip, summarise

__all__ = [
    "Buffer",
    "Dot",
    "DotLayout",
    "Layout",
    "Module",
    "Operation",
    "Trip",
    "dot_layout",
    "located",
    "parse",
    "summarise",
]
