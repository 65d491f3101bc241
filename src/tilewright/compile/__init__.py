"""Launch x Gpu -> Compiled, in worker processes that may crash or hang, with results cached by content."""

from tilewright.compile.cache import Cache, cache_dir
from tilewright.compile.compiled import Compiled, Failure, Result
from tilewright.compile.compiler import Compiler, compile_launch, triton_version

__all__ = [
    "Cache",
    "Compiled",
    "Compiler",
    "Failure",
    "Result",
    "cache_dir",
    "compile_launch",
    "triton_version",
]
