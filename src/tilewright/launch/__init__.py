"""What to launch: kernels as their source tells them, launches, and the case files that describe them."""

from tilewright.launch.case import (
    LAUNCH_OPTIONS,
    Case,
    CaseRef,
    Param,
    Values,
    is_case_file,
    load_case,
    read_settings,
)
from tilewright.launch.describe import describe_launch, described_parameters, parse_args, parse_grid
from tilewright.launch.dtypes import DTYPE_NAMES, DType, dtype
from tilewright.launch.kernel import KernelSource, Parameter, find_kernel, functions_of, short_path
from tilewright.launch.launch import (
    Arg,
    Descriptor,
    Launch,
    Needed,
    Scalar,
    Tensor,
    contiguous_strides,
    make_launch,
)

__all__ = [
    "DTYPE_NAMES",
    "LAUNCH_OPTIONS",
    "Arg",
    "Case",
    "CaseRef",
    "DType",
    "Descriptor",
    "KernelSource",
    "Launch",
    "Needed",
    "Param",
    "Parameter",
    "Scalar",
    "Tensor",
    "Values",
    "contiguous_strides",
    "describe_launch",
    "described_parameters",
    "dtype",
    "find_kernel",
    "functions_of",
    "is_case_file",
    "load_case",
    "make_launch",
    "parse_args",
    "parse_grid",
    "read_settings",
    "short_path",
]
