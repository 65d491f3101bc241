"""Triton's CPU interpreter, made right: kernels run for their values, without a GPU.

Triton runs a kernel in Python, on numpy, when TRITON_INTERPRET=1 is set before it is imported. As shipped,
that gives wrong numbers for bfloat16 and the 8-bit floats, fails on numpy 2.4 (Triton 3.6), and asks for a
GPU as soon as a kernel is autotuned.

As a library, before anything imports Triton:

    import tilewright.interpret
    tilewright.interpret.enable()

As a pytest plugin, to run tests that were written for a CUDA machine:

    pytest -p tilewright.interpret path/to/tests

`docs/interpret.md` says what is put right and what the interpreter cannot show.
"""

from __future__ import annotations

import os
import sys

__all__ = ["AUTOTUNE_VARIABLE", "InterpretError", "enable", "enabled"]

AUTOTUNE_VARIABLE = "TILEWRIGHT_INTERPRET_AUTOTUNE"
AUTOTUNE_CHOICES = ("first", "all")

_enabled = False
_cuda_redirected = False


class InterpretError(RuntimeError):
    """The interpreter cannot be switched on in this process."""


def enabled() -> bool:
    """Whether `enable` has been called in this process."""
    return _enabled


def enable(*, cuda_on_cpu: bool = False, autotune: str | None = None) -> None:
    """Make every Triton kernel of this process run in the interpreter, and put the interpreter right.

    cuda_on_cpu: also send what torch code asks of CUDA (`device="cuda"`, `.cuda()`, `torch.cuda.Event`) to
        the CPU, and answer True to `torch.cuda.is_available()`. Imports torch. The pytest plugin does this.
    autotune: "first" runs the first config that a kernel's own pruning leaves, "all" runs every config once
        and then the first again. By default what TILEWRIGHT_INTERPRET_AUTOTUNE says, else "first".

    May be called again; a later call can add `cuda_on_cpu` or change `autotune`. Raises InterpretError if
    Triton was imported in compiling mode already, if ml_dtypes is missing, or if `autotune` is neither of
    the two.
    """
    global _enabled, _cuda_redirected
    choice = autotune or os.environ.get(AUTOTUNE_VARIABLE) or AUTOTUNE_CHOICES[0]
    if choice not in AUTOTUNE_CHOICES:
        raise InterpretError(
            f"autotune (or {AUTOTUNE_VARIABLE}) must be one of {AUTOTUNE_CHOICES}, found {choice!r}"
        )

    if not _enabled:
        _import_triton_interpreting()
        from tilewright.interpret import floats, language

        language.install()
        floats.install()
        _enabled = True

    from tilewright.interpret import tuning

    tuning.install(every_config=choice == "all")

    if cuda_on_cpu and not _cuda_redirected:
        from tilewright.interpret import cuda

        cuda.install()
        _cuda_redirected = True


def _import_triton_interpreting() -> None:
    """Import Triton with its interpreter on, or say why that is no longer possible."""
    already_imported = "triton" in sys.modules
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        import ml_dtypes  # noqa: F401
    except ImportError as error:
        raise InterpretError(
            "bfloat16 and fp8 need the package ml_dtypes, which is not installed: "
            'pip install "tilewright[interpret]"'
        ) from error
    import triton.language

    # Triton decides once, while its own library functions are defined.
    if already_imported and type(triton.language.cdiv).__name__ != "InterpretedFunction":
        del os.environ["TRITON_INTERPRET"]
        raise InterpretError(
            "Triton was imported before tilewright.interpret.enable() and can only compile in this process: "
            "call enable() before the first import of triton, or start Python with TRITON_INTERPRET=1"
        )


# The pytest plugin. The first hook comes before any conftest.py; the second serves a conftest.py that says
# `pytest_plugins = ["tilewright.interpret"]`.


def pytest_load_initial_conftests() -> None:
    _enable_for_pytest()


def pytest_configure() -> None:
    _enable_for_pytest()


def pytest_report_header() -> str:
    import triton

    return f"tilewright.interpret: Triton {triton.__version__} kernels run on the CPU; times mean nothing"


def _enable_for_pytest() -> None:
    import importlib.util

    enable(cuda_on_cpu=importlib.util.find_spec("torch") is not None)
