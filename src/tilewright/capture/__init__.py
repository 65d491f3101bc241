"""Any program, unmodified: run it with no GPU and catch every Triton launch in it. Needs torch."""

from tilewright.capture.recorder import Recorder, read_lines
from tilewright.capture.session import Caught, capture, notes_in_words, stand_in, versions
from tilewright.capture.values import CaptureSetupError, GpuValueError, assume

__all__ = [
    "CaptureSetupError",
    "Caught",
    "GpuValueError",
    "Recorder",
    "assume",
    "capture",
    "notes_in_words",
    "read_lines",
    "stand_in",
    "versions",
]
