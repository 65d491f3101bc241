"""A launch is checked against its kernel before anything is compiled."""

import pytest

from tilewright.errors import LaunchError
from tilewright.launch import Tensor, contiguous_strides, dtype, find_kernel, make_launch

BODY = """
    @triton.jit
    def kernel(x_ptr, n, BLOCK: tl.constexpr, FLAG: tl.constexpr = True):
        pass
"""
X = Tensor.of("fp32", (64,))


@pytest.fixture
def kernel(kernel_file):
    return find_kernel(f"{kernel_file(BODY)}:kernel")


def test_arguments_stand_in_the_kernels_order_with_defaults(kernel):
    launch = make_launch(kernel, {"BLOCK": 32, "n": 64, "x_ptr": X}, (2, 3))
    assert list(launch.args) == ["x_ptr", "n", "BLOCK", "FLAG"]
    assert launch.constexprs == {"BLOCK": 32, "FLAG": True}
    assert (launch.grid, launch.programs) == ((2, 3, 1), 6)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            {"x_ptr": X, "n": 1},
            "kernel needs a value for BLOCK; its parameters are: x_ptr, n, BLOCK: constexpr",
        ),
        ({}, "kernel needs a value for x_ptr, n, BLOCK;"),
        (
            {"x_ptr": X, "n": 1, "BLOK": 32},
            "kernel has no parameter 'BLOK' (did you mean BLOCK?); its parameters are: x_ptr, n, BLOCK: constexpr",
        ),
        ({"x_ptr": X, "n": 1, "BLOCK": X}, "BLOCK is a constexpr and takes a value, found fp32[64]"),
    ],
)
def test_arguments_that_do_not_fit(kernel, args, message):
    with pytest.raises(LaunchError) as e:
        make_launch(kernel, args, (1,))
    assert message in str(e.value)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ((), "a grid has 1 to 3 axes, found 0"),
        ((1, 2, 3, 4), "a grid has 1 to 3 axes, found 4"),
        ((1, -1), "grid axis 1 must be a whole number of 0 or more, found -1"),
        ((1.5,), "grid axis 0 must be a whole number of 0 or more, found 1.5"),
        ((True,), "grid axis 0 must be a whole number of 0 or more, found True"),
        ((2**31,), "grid axis 0 may be at most 2,147,483,647, found 2,147,483,648"),
        ((1, 65536), "grid axis 1 may be at most 65,535, found 65,536"),
        ((1, 1, 65536), "grid axis 2 may be at most 65,535, found 65,536"),
    ],
)
def test_grids_that_cannot_be_launched(kernel, grid, message):
    with pytest.raises(LaunchError) as e:
        make_launch(kernel, {"x_ptr": X, "n": 1, "BLOCK": 32}, grid)
    assert message in str(e.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_warps": 3}, "num_warps must be a power of two, found 3"),
        ({"num_warps": 0}, "num_warps must be a whole number of 1 or more, found 0"),
        ({"num_warps": True}, "num_warps must be a whole number of 1 or more, found True"),
        ({"num_ctas": 3}, "num_ctas must be a power of two, found 3"),
        ({"num_stages": -1}, "num_stages must be a whole number of 0 or more, found -1"),
    ],
)
def test_options_that_cannot_be(kernel, options, message):
    with pytest.raises(LaunchError) as e:
        make_launch(kernel, {"x_ptr": X, "n": 1, "BLOCK": 32}, (1,), **options)
    assert message in str(e.value)


@pytest.mark.parametrize(
    ("shape", "strides"), [((), ()), ((5,), (1,)), ((2, 3, 4), (12, 4, 1)), ((2, 0, 4), (4, 4, 1))]
)
def test_contiguous_strides(shape, strides):
    assert contiguous_strides(shape) == strides


@pytest.mark.parametrize(
    ("tensor", "size"),
    [
        (Tensor.of("bf16", (32, 4096, 64)), 32 * 4096 * 64 * 2),
        (Tensor.of("fp32", (4, 4), (100, 1)), (3 * 100 + 3 + 1) * 4),
        (Tensor.of("fp32", (4, 4), (0, 1)), 16),
        (Tensor.of("i1", (10,)), 10),
        (Tensor.of("fp64", ()), 8),
        (Tensor.of("fp64", (3, 0)), 0),
    ],
)
def test_storage(tensor, size):
    assert tensor.storage_bytes == size


@pytest.mark.parametrize(
    ("name", "expected"),
    [("BF16", "bf16"), ("torch.bfloat16", "bf16"), ("tl.float32", "fp32"), ("half", "fp16"), ("bool", "i1")],
)
def test_element_types_by_other_names(name, expected):
    assert dtype(name).name == expected
