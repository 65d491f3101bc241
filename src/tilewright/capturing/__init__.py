"""Any program, unmodified: run it with no GPU and catch every Triton launch in it. Needs torch."""

from tilewright.capturing.child import capture_program
from tilewright.capturing.recorder import Recorder, read_lines
from tilewright.capturing.session import Caught, capture, stand_in, versions
from tilewright.capturing.values import CaptureSetupError, GpuValueError, assume

__all__ = [
    "CaptureSetupError",
    "Caught",
    "GpuValueError",
    "Recorder",
    "assume",
    "capture",
    "capture_program",
    "read_lines",
    "stand_in",
    "versions",
]
