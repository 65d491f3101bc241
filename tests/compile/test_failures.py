"""What is wrong with a kernel is said with its line; what is wrong with its file is said as that."""

import sys

import pytest

from tilewright.compile import Compiled, Failure
from tilewright.errors import CaseError, LaunchError
from tilewright.gpus import load
from tilewright.launch import Tensor, dtype, find_kernel, load_case, make_launch

VECTOR = Tensor.of("fp32", (4096,))
GPU = "rtx-4070-super"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("tl.store(x_ptr, undefined_name)", "CompilationError: NameError: undefined_name is not defined"),
        ("tl.store(x_ptr + tl.arange(0, 100), 1.0)", "arange's range must be a power of 2"),
        ("tl.store(x_ptr, tl.zeros((16,), tl.float32) + tl.zeros((32,), tl.float32))", "16 and 32"),
        ("tl.store(x_ptr, tl.load(x_ptr) & 1)", "invalid operands of type"),
        ("tl.static_assert(False, 'only even sizes')", "only even sizes"),
    ],
)
def test_a_compile_error_names_its_line(compile_kernel, statement, message):
    body = f"""
        @triton.jit
        def kernel(x_ptr):
            tl.store(x_ptr, 0.0)
            {statement}
    """
    failure = compile_kernel(body, GPU, {"x_ptr": VECTOR}, expect=Failure)
    assert failure.kind == "error"
    assert message in failure.message
    assert failure.place.endswith(f"kernel.py:8: {statement}")


def test_an_error_in_a_helper_names_the_helpers_line(compile_kernel):
    body = """
        @triton.jit
        def helper(x):
            return x + missing

        @triton.jit
        def kernel(x_ptr):
            tl.store(x_ptr, helper(1.0))
    """
    failure = compile_kernel(body, GPU, {"x_ptr": VECTOR}, expect=Failure)
    assert failure.kind == "error"
    assert "missing is not defined" in failure.message
    assert failure.place.endswith("kernel.py:7: return x + missing")


def test_an_error_inside_tritons_library_names_the_users_line(compile_kernel):
    body = """
        @triton.jit
        def kernel(x_ptr):
            tl.store(x_ptr, tl.sort(tl.load(x_ptr + tl.arange(0, 4)[None, :] + tl.arange(0, 4)[:, None]), dim=0))
    """
    failure = compile_kernel(body, GPU, {"x_ptr": VECTOR}, expect=Failure)
    assert "kernel.py:7: tl.store" in failure.place


def test_a_file_that_imports_what_is_not_installed(compiler, tmp_path):
    file = tmp_path / "kernel.py"
    file.write_text(
        "import triton\nimport package_that_is_not_there\n\n@triton.jit\ndef kernel(x_ptr):\n    pass\n"
    )
    failure = compile_file(compiler, file)
    assert failure.kind == "import"
    assert "package_that_is_not_there, which is not installed here" in failure.message


def test_a_file_that_raises_when_loaded(compiler, kernel_file):
    body = """
        raise OSError("no such luck")

        @triton.jit
        def kernel(x_ptr):
            pass
    """
    failure = compile_file(compiler, kernel_file(body))
    assert failure.kind == "import"
    assert "could not be loaded: OSError: no such luck" in failure.message


def test_a_decorated_function_that_is_no_kernel(compiler, kernel_file):
    body = """
        import functools

        @functools.cache
        def kernel(x_ptr):
            pass
    """
    failure = compile_file(compiler, kernel_file(body))
    assert failure.kind == "import"
    assert "is not a Triton kernel" in failure.message


def compile_file(compiler, file, name="kernel"):
    launch = make_launch(find_kernel(f"{file}:{name}"), {"x_ptr": VECTOR}, (1,))
    return compiler.compile([(launch, load(GPU).target)])[0]


def test_a_kernel_in_a_package_with_relative_imports(compiler, kernel_file, tmp_path):
    kernel_file(
        """
        @triton.jit
        def double(x):
            return x * 2.125
        """,
        "pack/inner/helpers.py",
    )
    file = kernel_file(
        """
        from .helpers import double
        from ..constants import BLOCK

        @triton.jit
        def kernel(x_ptr):
            i = tl.arange(0, BLOCK)
            tl.store(x_ptr + i, double(tl.load(x_ptr + i)))
        """,
        "pack/inner/kernel.py",
    )
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "inner" / "__init__.py").write_text("")
    (tmp_path / "pack" / "constants.py").write_text(
        "import triton.language as tl\nBLOCK = tl.constexpr(64)\n"
    )
    compiled = compile_file(compiler, file)
    assert isinstance(compiled, Compiled), compiled
    assert "2.125" in compiled.asm["ttir"]
    assert "pack" not in sys.modules


def test_two_folders_with_the_same_names_in_one_batch(compiler, kernel_file):
    launches = []
    for folder, factor in (("a", 2.125), ("b", 3.375), ("c", 4.625)):
        kernel_file(f"FACTOR = tl.constexpr({factor})\n", f"{folder}/utils.py")
        file = kernel_file(
            """
            from utils import FACTOR

            @triton.jit
            def kernel(x_ptr):
                tl.store(x_ptr, tl.load(x_ptr) * FACTOR)
            """,
            f"{folder}/kernel.py",
        )
        launches.append(make_launch(find_kernel(f"{file}:kernel"), {"x_ptr": VECTOR}, (1,)))
    target = load(GPU).target
    results = compiler.compile([(launch, target) for launch in [*launches, *launches[:1]]])
    for result, factor in zip(results, ("2.125", "3.375", "4.625", "2.125"), strict=True):
        assert factor in result.asm["ttir"]


def test_a_file_that_prints_when_loaded(compiler, kernel_file):
    body = """
        import os, sys
        print("hello from the kernel's file")
        sys.stdout.write('{"ready": true}\\n')
        os.write(1, b'{"compiled": 1}\\n')

        @triton.jit
        def kernel(x_ptr):
            tl.store(x_ptr, 1.0)
    """
    assert isinstance(compile_file(compiler, kernel_file(body)), Compiled)


def test_types_do_not_leak_from_one_compile_to_the_next(compiler, kernel_file):
    """Triton remembers element types by the address of the dtype's object: the stand-ins must outlive it."""
    file = kernel_file(
        """
        @triton.jit
        def kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
            i = tl.arange(0, BLOCK)
            tl.store(y_ptr + i, tl.load(x_ptr + i).to(y_ptr.dtype.element_ty))
        """
    )
    pairs = [
        ("bf16", "fp32"),
        ("fp32", "bf16"),
        ("fp16", "i8"),
        ("i64", "fp16"),
        ("i8", "fp64"),
        ("u8", "i1"),
    ] * 12
    launches = [
        make_launch(
            find_kernel(f"{file}:kernel"),
            {"x_ptr": Tensor.of(x, (4096,)), "y_ptr": Tensor.of(y, (4096,)), "BLOCK": 2 << (i // 6)},
            (1,),
        )
        for i, (x, y) in enumerate(pairs)
    ]
    results = compiler.compile([(launch, load(GPU).target) for launch in launches], depth="ttgir")
    found = [(r.signature["x_ptr"], r.signature["y_ptr"]) for r in results]
    names = {"i1": "*u1"}
    assert found == [(names.get(x, f"*{x}"), names.get(y, f"*{y}")) for x, y in pairs]


def test_a_gluon_kernel(compiler, tmp_path):
    file = tmp_path / "kernel.py"
    file.write_text(
        "from triton.experimental import gluon\n"
        "from triton.experimental.gluon import language as gl\n\n\n"
        "@gluon.jit\n"
        "def kernel(x_ptr, y_ptr, BLOCK: gl.constexpr):\n"
        "    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])\n"
        "    i = gl.arange(0, BLOCK, layout=layout)\n"
        "    shared = gl.allocate_shared_memory(\n"
        "        gl.float32, [BLOCK], gl.SwizzledSharedLayout(1, 1, 1, order=[0]))\n"
        "    shared.store(gl.load(x_ptr + i))\n"
        "    gl.store(y_ptr + i, shared.load(layout) + 1)\n"
    )
    args = {"x_ptr": VECTOR, "y_ptr": VECTOR, "BLOCK": 512}
    launch = make_launch(find_kernel(f"{file}:kernel"), args, (1,))
    (compiled,) = compiler.compile([(launch, load(GPU).target)])
    assert isinstance(compiled, Compiled), compiled
    assert compiled.shared_bytes == 512 * 4
    assert list(compiled.buffer_bytes.values()) == [512 * 4]


def test_an_element_type_as_a_constexpr(compile_kernel):
    body = """
        @triton.jit
        def kernel(x_ptr, ACC: tl.constexpr, num_stages: tl.constexpr):
            i = tl.arange(0, 64)
            for _ in tl.range(0, 4, num_stages=num_stages):
                tl.store(x_ptr + i, tl.load(x_ptr + i) + tl.zeros((64,), ACC))
    """
    for name, written in (("fp16", "f16"), ("bf16", "bf16"), ("i32", "i32"), ("fp32", "f32")):
        args = {"x_ptr": Tensor.of(name, (64,)), "ACC": dtype(name), "num_stages": 3}
        compiled = compile_kernel(body, GPU, args)
        assert f"64x{written}" in compiled.asm["ttir"]
        assert compiled.num_stages == 3
        assert compiled.loop_stages == (3,)


def test_a_case_may_give_tritons_own_types(tmp_path):
    (tmp_path / "k.py").write_text(
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef k(x, ACC: tl.constexpr): ...\n"
    )
    (tmp_path / "case.py").write_text(
        "import triton.language as tl\nfrom tilewright import Case, Tensor\n"
        "CASE = Case(kernel='k.py:k', args=lambda p: {'x': Tensor.of('fp32', (1,)), 'ACC': tl.float32},"
        " grid=lambda p: (1,))\n"
        "CASES = {'good': CASE, 'bad': Case(kernel='k.py:k', args=lambda p: {'x': 1, 'ACC': object()},"
        " grid=lambda p: (1,)), 'grid': Case(kernel='k.py:k', args=lambda p: {}, grid=lambda p: 1)}\n"
    )
    assert load_case(f"{tmp_path}/case.py:good").launch({}).args["ACC"] == dtype("fp32")
    with pytest.raises(LaunchError, match="ACC cannot be of type object: expected"):
        load_case(f"{tmp_path}/case.py:bad").launch({})
    with pytest.raises(CaseError, match=r"grid must give a tuple .* found 1"):
        load_case(f"{tmp_path}/case.py:grid").launch({})
