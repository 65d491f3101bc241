"""Number formats as data and codecs, exact to the bit, and the block schemes that share scales. numpy only."""

from tilewright.formats.blocks import SCHEMES, Quantised, Scheme, quantise, scheme
from tilewright.formats.element import FORMATS, ROUNDINGS, ElementFormat, FormatError, element

__all__ = [
    "FORMATS",
    "ROUNDINGS",
    "SCHEMES",
    "ElementFormat",
    "FormatError",
    "Quantised",
    "Scheme",
    "element",
    "quantise",
    "scheme",
]
