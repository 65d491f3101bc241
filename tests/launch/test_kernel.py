"""Kernels are found by reading their file, never by running it."""

import sys

import pytest

from tilewright.errors import KernelError, LaunchError
from tilewright.launch import Parameter, find_kernel, make_launch


def test_parameters_and_place(kernel_file):
    file = kernel_file(
        """
        SIZE = 8

        @triton.jit
        def helper(x):
            return x

        @triton.autotune(configs=[], key=[])
        @triton.jit
        def kernel(x_ptr, n: int, BLOCK: tl.constexpr, FLAG: "tl.constexpr" = True, size=SIZE, *, last=None):
            pass
        """
    )
    kernel = find_kernel(f"{file}:kernel")
    assert kernel.line == 13
    assert [p.name for p in kernel.parameters] == ["x_ptr", "n", "BLOCK", "FLAG", "size", "last"]
    assert [p.is_constexpr for p in kernel.parameters] == [False, False, True, True, False, False]
    assert kernel.parameters[3] == Parameter("FLAG", True, True, True)
    assert kernel.parameters[4].has_default
    assert not kernel.parameters[4].default_is_known
    assert kernel.parameters[5].default_is_known
    assert kernel.signature() == "x_ptr, n, BLOCK: constexpr, FLAG: constexpr, size, last"


def test_the_file_is_not_run(tmp_path):
    file = tmp_path / "kernel.py"
    file.write_text("raise SystemExit('run!')\n@triton.jit\ndef kernel(x): pass\n")
    assert find_kernel(f"{file}:kernel").name == "kernel"


@pytest.mark.parametrize(
    "wrapper",
    [
        "if True:\n    {}",
        "if False:\n    pass\nelse:\n    {}",
        "try:\n    import numpy\n    {}\nexcept ImportError:\n    pass",
        "try:\n    import nothing_there\nexcept ImportError:\n    {}",
        "if 1:\n    pass\nelif 2:\n    try:\n        pass\n    finally:\n        {}",
        "with open('x') as f:\n    {}",
    ],
)
def test_kernels_under_conditions(tmp_path, wrapper):
    file = tmp_path / "kernel.py"
    definition = "@triton.jit\n{0}def kernel(x):\n{0}    pass"
    indent = wrapper.split("{}")[0].rpartition("\n")[2]
    file.write_text(wrapper.replace("{}", definition.format(indent)) + "\n")
    assert [p.name for p in find_kernel(f"{file}:kernel").parameters] == ["x"]


def test_a_module_is_located_but_not_imported(tmp_path, monkeypatch):
    folder = tmp_path / "a_package_for_tests" / "inner"
    folder.mkdir(parents=True)
    for init in (folder.parent, folder):
        (init / "__init__.py").write_text("raise RuntimeError('imported!')")
    (folder / "ops.py").write_text("@triton.jit\ndef kernel(x): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert find_kernel("a_package_for_tests.inner.ops:kernel").path == folder / "ops.py"
    assert "a_package_for_tests" not in sys.modules


def test_relative_files_are_looked_for_from_the_base(kernel_file, tmp_path):
    kernel_file("@triton.jit\ndef kernel(x): pass\n", "sub/kernel.py")
    assert find_kernel("sub/kernel.py:kernel", tmp_path).path == tmp_path / "sub" / "kernel.py"


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("{f}", "expected FILE.py:KERNEL or MODULE:KERNEL"),
        ("{f}:", "expected FILE.py:KERNEL or MODULE:KERNEL"),
        ("{f}:kernal", "has no kernel 'kernal' (did you mean kernel?); it has: kernel"),
        (
            "{f}:plain",
            "plain is a plain function: expected one that is decorated with @triton.jit or @gluon.jit",
        ),
        ("{f}x.py:kernel", "no such file: "),
        ("no_such_module_here:kernel", "no module 'no_such_module_here' here"),
        ("json.nothing:kernel", "no module 'json.nothing' here: 'nothing' was not found"),
        ("_ctypes:kernel", "module '_ctypes' has no Python source file"),
    ],
)
def test_what_cannot_be_found(kernel_file, reference, message):
    file = kernel_file("def plain(x):\n    pass\n\n@triton.jit\ndef kernel(x):\n    pass\n")
    with pytest.raises(KernelError) as e:
        find_kernel(reference.format(f=file))
    assert message in str(e.value)


def test_a_file_that_is_not_python(tmp_path):
    file = tmp_path / "kernel.py"
    file.write_text("def kernel(:\n")
    with pytest.raises(KernelError, match=r"kernel\.py:1: not valid Python"):
        find_kernel(f"{file}:kernel")
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(KernelError, match="cannot read"):
        find_kernel(f"{file}:kernel")
    file.write_text("x = 1\n")
    with pytest.raises(KernelError, match="it has: no functions at all"):
        find_kernel(f"{file}:kernel")


def test_an_autotuned_kernel_says_where_its_missing_values_stand(tmp_path):
    file = tmp_path / "k.py"
    file.write_text("@triton.autotune(configs=CONFIGS, key=[])\n@triton.jit\ndef k(x, BLOCK: tl.constexpr): ...\n")
    kernel = find_kernel(f"{file}:k")
    assert kernel.is_autotuned
    with pytest.raises(LaunchError, match=r"needs a value for BLOCK; of its @triton.autotune configs"):
        make_launch(kernel, {"x": 1}, (1,))
