"""Case files: what a user may write, what is said when it is wrong, and how `--set` makes launches of one."""

import textwrap

import pytest

from tilewright.errors import CaseError, LaunchError, TilewrightError
from tilewright.launch import Param, is_case_file, load_case, read_settings

GOOD = """
    from tilewright import Case, Param, Tensor

    def make(block):
        return Case(
            kernel="kernel.py:kernel",
            params={"N": Param(1024, smallest=1), "BLOCK": Param(block, power_of_two=True),
                    "dtype": Param("fp32", choices=("fp32", "fp16")), "flag": Param(False), "eps": 0.5,
                    "extra": Param(None)},
            args=lambda p: {"x_ptr": Tensor.of(p.dtype, (p.N,)), "n": p.N, "BLOCK": p.BLOCK},
            grid=lambda p: (-(-p.N // p.BLOCK),),
            num_warps=2,
            check=lambda p: f"N = {p.N} is more than the 5,000 that this takes" if p.N > 5000 else None,
        )

    CASES = {"small": make(64), "large": make(512)}
"""
KERNEL = "@triton.jit\ndef kernel(x_ptr, n, BLOCK: tl.constexpr):\n    pass\n"


@pytest.fixture
def case_file(tmp_path, kernel_file):
    def write(text=GOOD):
        kernel_file(KERNEL)
        file = tmp_path / "case.py"
        file.write_text(textwrap.dedent(text))
        return file

    return write


def test_launches_of_a_case(case_file):
    case = load_case(f"{case_file()}:small")
    launch = case.launch({"N": 1000, "num_stages": 2})
    assert launch.args["x_ptr"].shape == (1000,)
    assert (launch.args["BLOCK"], launch.grid, launch.num_warps, launch.num_stages) == (64, (16, 1, 1), 2, 2)
    assert launch.parameters["dtype"] == "fp32"
    assert launch.case == case.name
    assert case.name.endswith("case.py:small")


def test_one_case_needs_no_variant(case_file):
    file = case_file(GOOD.replace('CASES = {"small": make(64), "large": make(512)}', "CASE = make(32)"))
    assert load_case(str(file)).launch({}).args["BLOCK"] == 32
    assert load_case(str(file)).name == str(file)
    file = case_file(GOOD.replace(', "large": make(512)', ""))
    assert load_case(str(file)).variant == "small"


@pytest.mark.parametrize(
    ("text", "variant", "message"),
    [
        (GOOD, ":smal", "no variant 'smal' (did you mean small?). It has: small, large"),
        (GOOD, "", "which variant? It has: small, large"),
        ("x = 1", ":a", "defines no cases: expected CASES = {'variant': tilewright.Case(...)}"),
        ("CASES = {}", ":a", "defines no cases"),
        ("CASES = {'a': 1}", ":a", "defines no cases"),
        ("raise ValueError('no luck')", ":a", "could not be loaded: ValueError: no luck"),
        ("import not_installed_anywhere", ":a", "could not be loaded: ModuleNotFoundError: No module named"),
        ("def f(:", ":a", "could not be loaded: SyntaxError"),
    ],
)
def test_files_that_hold_no_such_case(case_file, text, variant, message):
    with pytest.raises(CaseError) as e:
        load_case(f"{case_file(text)}{variant}")
    assert message in str(e.value)


def test_no_file(tmp_path):
    with pytest.raises(CaseError, match=r"no case file '.*absent.py': expected path/to/case.py:variant"):
        load_case(f"{tmp_path}/absent.py:v0")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            ("grid=lambda p: (-(-p.N // p.BLOCK),)", "grid=lambda p: (p.missing,)"),
            CaseError,
            "no parameter 'missing'",
        ),
        (("(-(-p.N // p.BLOCK),)", "(1 // 0,)"), CaseError, "making the launch failed: ZeroDivisionError"),
        (('"n": p.N', '"m": p.N'), LaunchError, "kernel has no parameter 'm'"),
        (('"n": p.N, ', ""), LaunchError, "kernel needs a value for n"),
        (
            ("Tensor.of(p.dtype", "Tensor.of('fp31'"),
            LaunchError,
            "unknown element type 'fp31' (did you mean fp32?)",
        ),
        (
            ("kernel.py:kernel", "kernel.py:kernl"),
            TilewrightError,
            "no kernel 'kernl' (did you mean kernel?)",
        ),
    ],
)
def test_cases_that_make_no_launch(case_file, change, error, message):
    case = load_case(f"{case_file(GOOD.replace(*change))}:small")
    with pytest.raises(error) as e:
        case.launch({})
    assert message in str(e.value)


def test_a_case_that_complains(case_file):
    with pytest.raises(CaseError, match=r"case.py:small: N = 6000 is more than the 5,000 that this takes"):
        load_case(f"{case_file()}:small").launch({"N": 6000})


def test_a_case_may_import_what_lies_beside_it(case_file, tmp_path):
    (tmp_path / "beside_the_case.py").write_text("BLOCK = 128\n")
    text = "from beside_the_case import BLOCK" + textwrap.dedent(GOOD).replace("make(64)", "make(BLOCK)")
    assert load_case(f"{case_file(text)}:small").launch({}).args["BLOCK"] == 128


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["N"], "expected --set NAME=VALUE, found 'N'"),
        (["N="], "expected --set NAME=VALUE, found 'N='"),
        (["n_rows=3"], "no parameter 'n_rows'"),
        (["BLOK=3"], "no parameter 'BLOK' (did you mean BLOCK?); the parameters are: N, BLOCK, dtype"),
        (["N=3", "N=4"], "N is set twice; write --set N=V1,V2"),
        (["N=many"], "N must be a whole number, found 'many'"),
        (["N=1.5"], "N must be a whole number, found '1.5'"),
        (["N=0"], "N must be 1 or more, found 0"),
        (["BLOCK=48"], "BLOCK must be a power of two (1, 2, 4, ...), found 48"),
        (["BLOCK=0"], "BLOCK must be a power of two"),
        (["BLOCK=64,65"], "BLOCK must be a power of two"),
        (["dtype=bf16"], "dtype must be one of fp32, fp16; found bf16"),
        (["flag=maybe"], "flag must be true or false, found 'maybe'"),
        (["eps=tiny"], "eps must be a number, found 'tiny'"),
        (["num_warps=3"], "num_warps must be a power of two"),
        (["num_stages=-1"], "num_stages must be 0 or more, found -1"),
    ],
)
def test_settings_that_cannot_be(case_file, settings, message):
    params = load_case(f"{case_file()}:small").case.parameters()
    with pytest.raises(CaseError) as e:
        read_settings(params, settings)
    assert message in str(e.value)


def test_settings_multiply_with_the_first_name_slowest():
    params = {"a": Param(1), "b": Param("x"), "c": Param(False), "d": Param(0.5), "e": Param(None)}
    found = read_settings(params, ["b=p, q", "a=1,2,", "c=yes", "d=1e-3", "e=1_000"])
    rest = {"c": True, "d": 0.001, "e": 1000}
    assert found == [
        {"b": "p", "a": 1, **rest},
        {"b": "p", "a": 2, **rest},
        {"b": "q", "a": 1, **rest},
        {"b": "q", "a": 2, **rest},
    ]
    assert read_settings(params, []) == [{}]


def test_what_counts_as_a_case_file(case_file, kernel_file, tmp_path):
    assert is_case_file(case_file())
    assert not is_case_file(kernel_file(KERNEL))
    assert not is_case_file(tmp_path / "absent.py")
