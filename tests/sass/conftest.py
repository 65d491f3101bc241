"""Fixtures of the counting tests."""

import pytest

from tilewright.compile import Compiled
from tilewright.gpus import load
from tilewright.launch import find_kernel, load_case, make_launch
from tilewright.sass.count import count


@pytest.fixture(scope="session")
def explain_counts(compiler, flagship):
    """Count one version of the flagship: explain_counts("v0", "h200", q=16, k=16, warps=4, stages=3)."""

    def counts(version, gpu, *, q, k, warps, stages, causal=False, given=(), **values):
        settings = {"Q_TILE_SIZE": q, "K_TILE_SIZE": k, "num_warps": warps, "num_stages": stages}
        launch = load_case(f"{flagship}:{version}").launch({**settings, "causal": causal, **values})
        (result,) = compiler.compile([(launch, load(gpu).target)])
        assert isinstance(result, Compiled), result
        return count(result, launch, given)

    return counts


@pytest.fixture(scope="session")
def count_kernel(compiler):
    """Count a kernel with arguments: count_kernel("file.py:kernel", args, grid, "h200")."""

    def counts(reference, args, grid, gpu, given=(), traffic=False, **options):
        launch = make_launch(find_kernel(str(reference)), args, grid, **options)
        (result,) = compiler.compile([(launch, load(gpu).target)])
        assert isinstance(result, Compiled), result
        return count(result, launch, given, traffic=traffic)

    return counts
