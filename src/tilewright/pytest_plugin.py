"""pytest plugin: the fixture `kernel_profile`, for plain asserts on what a kernel compiles to and executes.

    def test_no_spills(kernel_profile):
        k = kernel_profile("cases/attention/case.py:forward", gpu="h200", BLOCK=128)
        assert k.spilled_registers == 0
        assert k.instructions <= 1_000_000

Nothing heavy is imported before the fixture is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tilewright.model import Profile
    from tilewright.rules import Finding


class KernelProfile:
    """A launch on a GPU: its figures as attributes (see docs/check.md), its `findings`, and the whole `profile`.

    A figure that is not known fails the test with the reason.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile

    @property
    def fits(self) -> bool:
        """Whether one program fits on an SM at all."""
        return self.profile.fits

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the rules find wrong, the largest bound first."""
        from tilewright.rules import find

        return find(self.profile)

    def __getattr__(self, name: str) -> float:
        from tilewright.check import FIGURES
        from tilewright.check.figures import plain
        from tilewright.errors import did_you_mean

        if name.startswith("_") or name not in FIGURES:
            near = did_you_mean(name, FIGURES)
            raise AttributeError(f"no figure {name!r}{near}; there are: {', '.join(FIGURES)}")
        reading = FIGURES[name].read(self.profile)
        if reading.value is None:
            pytest.fail(
                f"{name} of {self!r} is not known: {self._problem() or reading.reason}", pytrace=False
            )
        return plain(reading.value)

    def _problem(self) -> str | None:
        p = self.profile
        return p.does_not_fit.message if p.does_not_fit else p.failure.message if p.failure else None

    def __repr__(self) -> str:
        launch = self.profile.launch
        return f"<{launch.case or launch.kernel.name} on {self.profile.gpu.name}>"


@pytest.fixture(scope="session")
def _tilewright_compiler() -> Iterator[Any]:
    from tilewright.compile import Compiler

    with Compiler(workers=1) as compiler:
        yield compiler


@pytest.fixture
def kernel_profile(request: pytest.FixtureRequest, _tilewright_compiler: Any) -> Callable[..., KernelProfile]:
    """Profile a launch: kernel_profile("case.py:variant", gpu="h200", NAME=value, ...) -> KernelProfile.

    `args` and `grid` describe FILE.py:KERNEL as on the command line; `assume` is a list of `FILE:LINE=VALUE`. Files are
    looked for beside the test, then below pytest's root. A kernel that does not compile has no figures.
    """

    def kernel_profile(
        case: str,
        gpu: str = "h200",
        *,
        args: str | None = None,
        grid: str | None = None,
        assume: Sequence[str] = (),
        **settings: Any,
    ) -> KernelProfile:
        from tilewright.cli.counting import read_assumed
        from tilewright.cli.explain import compile_and_count
        from tilewright.cli.launches import read_launches
        from tilewright.gpus import load

        texts = [f"{name}={value}" for name, value in settings.items()]
        reference = _found(case, (request.path.parent, request.config.rootpath))
        (launch,), _ = read_launches([reference], texts, args, grid)
        given = read_assumed(assume)
        (profile,) = compile_and_count(_tilewright_compiler, [(launch, load(gpu))], True, given, 1)
        return KernelProfile(profile)

    return kernel_profile


def _found(case: str, folders: Sequence[Path]) -> str:
    file, colon, name = case.rpartition(":")
    for folder in folders:
        if file and (folder / file).is_file():
            return f"{folder / file}{colon}{name}"
    return case
