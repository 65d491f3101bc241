"""`--args` and `--grid`: what is read, and what is said about what cannot be."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.errors import LaunchError
from tilewright.launch import (
    DTYPE_NAMES,
    Descriptor,
    Tensor,
    describe_launch,
    described_parameters,
    dtype,
    find_kernel,
    parse_args,
    parse_grid,
    read_settings,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x: bf16[4096,64]", Tensor.of("bf16", (4096, 64))),
        ("  x :  bf16 [ 4096 , 64 ]  ", Tensor.of("bf16", (4096, 64))),
        ("x: *fp32[8]", Tensor.of("fp32", (8,))),
        ("x: torch.float16[2,3](3,1)", Tensor.of("fp16", (2, 3))),
        ("x: fp32[4096,64](1,4096)@4", Tensor.of("fp32", (4096, 64), (1, 4096), 4)),
        ("x: fp32[4096, 64] ( 128, 1 ) @ 8", Tensor.of("fp32", (4096, 64), (128, 1), 8)),
        ("x: f32[1_000_000]", Tensor.of("fp32", (1_000_000,))),
        ("x: i64[]", Tensor.of("i64", ())),
        ("x: fp8e4nv[16,16]@16", Tensor.of("fp8e4nv", (16, 16))),
        ("x: float8_e5m2[16]", Tensor.of("fp8e5", (16,))),
        ("x: bool[0]", Tensor.of("i1", (0,))),
        ("x: descriptor bf16[1024,64] block[128,64]", Descriptor(Tensor.of("bf16", (1024, 64)), (128, 64))),
        (
            "x: descriptor bf16[1024,64](128,1) block [128, 64]",
            Descriptor(Tensor.of("bf16", (1024, 64), (128, 1)), (128, 64)),
        ),
        ("x: 4096", 4096),
        ("x: -3", -3),
        ("x: 0x10", 16),
        ("x: 1_000", 1000),
        ("x: 0.125", 0.125),
        ("x: 1e-5", 1e-5),
        ("x: 1.5E+3", 1500.0),
        ("x: true", True),
        ("x: False", False),
        ("x: none", None),
        ("x: 'gelu, tanh'", "gelu, tanh"),
        ('x: "it\'s"', "it's"),
        ("x: constexpr 128", 128),
        ("x: constexpr=128", 128),
        ("x: constexpr(128)", 128),
        ("x: constexpr: 128", 128),
        ("x: constexpr true", True),
        ("x: constexpr 'relu'", "relu"),
        ("x: constexpr -1.5e2", -150.0),
    ],
)
def test_what_is_read(text, expected):
    (found,) = parse_args(text).values()
    assert found == expected
    assert type(found) is type(expected)


def test_several_arguments_keep_their_order():
    found = parse_args("b: bf16[2,3](1,2), a: 'x, y', n: 7, c: fp32[4], ")
    assert list(found) == ["b", "a", "n", "c"]
    assert (found["b"].strides, found["a"], found["n"]) == ((1, 2), "x, y", 7)
    assert parse_args("") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "expected 'name: value', found 'x'; for example"),
        ("x = 3", "expected 'name: value', found 'x = 3'"),
        ("3: 4", "expected 'name: value', found '3: 4'"),
        ("x: 1, x: 2", "argument x is given twice"),
        ("x: bf17[3]", "x: unknown element type 'bf17' (did you mean bf16?); expected one of: i1, i8"),
        ("x: bf16[3", "x: cannot read 'bf16[3': expected a tensor (bf16[4096,64]), a number, true, false"),
        ("x: bf16[a,b]", "x: expected whole numbers separated by commas, found 'a,b'"),
        ("x: bf16[3.5]", "x: expected whole numbers separated by commas, found '3.5'"),
        ("x: bf16[-1]", "x: a tensor's sizes must be 0 or more, found [-1]"),
        ("x: bf16[4,4](1)", "x: a tensor of 2 dimensions needs 2 strides, found [1]"),
        ("x: bf16[4]@3", "x: an alignment must be a power of two in bytes, found 3"),
        ("x: bf16[4]@0", "x: an alignment must be a power of two in bytes, found 0"),
        ("x: descriptor 4 block[4]", "x: a descriptor needs a tensor, found '4'"),
        ("x: bf16", "x: cannot read 'bf16'"),
        ("x: [1, 2]", "x: cannot read '[1, 2]'"),
        ("x: yes please", "x: cannot read 'yes please'"),
        ("x: ", "x: cannot read ''"),
    ],
)
def test_what_cannot_be_read(text, message):
    with pytest.raises(LaunchError) as e:
        parse_args(text)
    assert message in str(e.value)


tensors = st.builds(
    Tensor.of,
    st.sampled_from(DTYPE_NAMES),
    st.shared(st.lists(st.integers(0, 5000), max_size=4), key="shape"),
    st.one_of(
        st.none(),
        st.shared(st.lists(st.integers(0, 5000), max_size=4), key="shape").flatmap(
            lambda shape: st.lists(st.integers(-9, 9000), min_size=len(shape), max_size=len(shape))
        ),
    ),
    st.sampled_from([1, 2, 4, 8, 16, 32, 128]),
)


@given(tensors)
def test_a_tensor_reads_back_as_it_prints(tensor):
    assert parse_args(f"x: {tensor}") == {"x": tensor}


@given(st.dictionaries(st.from_regex(r"\A[a-z_][a-z0-9_]{0,8}\Z"), tensors, max_size=4))
def test_several_tensors_read_back(args):
    text = ", ".join(f"{name}: {tensor}" for name, tensor in args.items())
    assert parse_args(text) == args


@given(st.one_of(st.integers(), st.booleans(), st.none(), st.floats(allow_infinity=False, allow_nan=False)))
def test_a_scalar_reads_back_as_it_prints(value):
    (found,) = parse_args(f"x: {value}").values()
    assert found == value
    assert type(found) is type(value)
    assert not isinstance(value, float) or math.copysign(1, found) == math.copysign(1, value)


@pytest.mark.parametrize(
    ("text", "expected"), [("32", (32,)), ("32,8", (32, 8)), ("32x8x2", (32, 8, 2)), (" 32 , 8 ", (32, 8))]
)
def test_grid(text, expected):
    assert parse_grid(text) == expected


@pytest.mark.parametrize("text", ["", "a", "32,", "3.5", "(32,8)"])
def test_grid_that_cannot_be_read(text):
    with pytest.raises(LaunchError, match="expected a grid such as 32,8, found"):
        parse_grid(text)


BODY = """
    @triton.jit
    def kernel(x_ptr, n, BLOCK: tl.constexpr, MODE: tl.constexpr = "a"):
        pass
"""


def test_settings_change_scalars_and_options_of_a_described_launch(kernel_file):
    kernel = find_kernel(f"{kernel_file(BODY)}:kernel")
    args = parse_args("x_ptr: fp32[64], n: 64, BLOCK: 32")
    params = described_parameters(kernel, args)
    assert list(params) == ["n", "BLOCK", "num_warps", "num_stages", "num_ctas"]
    (values,) = read_settings(params, ["BLOCK=64", "num_warps=8", "n=17"])
    launch = describe_launch(kernel, args, "4", values)
    assert launch.args == {"x_ptr": args["x_ptr"], "n": 17, "BLOCK": 64, "MODE": "a"}
    assert (launch.num_warps, launch.num_stages, launch.grid) == (8, None, (4, 1, 1))
    assert launch.constexprs == {"BLOCK": 64, "MODE": "a"}
    assert launch.assumed[:2] == ("contiguous: x_ptr", "address divisible by 16: x_ptr")
    assert launch.assumed[2].startswith("grid 4 whatever BLOCK, n is")
    launch = describe_launch(kernel, args, "cdiv(n, BLOCK) * 2, n // 8", values)
    assert launch.grid == (2, 2, 1)
    assert len(launch.assumed) == 2


def test_an_element_type_is_a_constexpr(kernel_file):
    kernel = find_kernel(f"{kernel_file(BODY)}:kernel")
    for text in ("tl.float32", "constexpr tl.float32", "constexpr fp32", "constexpr float32"):
        launch = describe_launch(kernel, parse_args(f"x_ptr: fp32[64], n: 64, BLOCK: 32, MODE: {text}"), "4", {})
        assert launch.args["MODE"] == dtype("fp32")
        assert launch.constexprs["MODE"] == launch.to_dict()["args"]["MODE"] == "fp32"


def test_a_parameter_that_is_also_an_option_is_both(kernel_file):
    """As in Triton: kernel[grid](..., num_stages=4) gives it to the parameter and to the compiler."""
    body = BODY.replace('MODE: tl.constexpr = "a"', "num_stages: tl.constexpr")
    kernel = find_kernel(f"{kernel_file(body)}:kernel")
    args = parse_args("x_ptr: fp32[64], n: 64, BLOCK: 32, num_stages: 2")
    assert describe_launch(kernel, args, "4", {}).num_stages == 2
    launch = describe_launch(kernel, args, "4", {"num_stages": 4})
    assert (launch.num_stages, launch.args["num_stages"]) == (4, 4)


def test_nothing_is_assumed_of_a_stated_alignment(kernel_file):
    kernel = find_kernel(f"{kernel_file(BODY)}:kernel")
    for tensor, assumed in (("fp32[64]@4", ("contiguous: x_ptr",)), ("fp32[4,4](9,1)@4", ())):
        launch = describe_launch(kernel, parse_args(f"x_ptr: {tensor}, n: 64, BLOCK: 32"), "4", {})
        assert launch.assumed == assumed
