"""What the stages make, one by one, is what `triton.compile` and a launch make: the same bytes, the same figures."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tilewright.compile.cubin import as_new_format, with_fewer_registers
from tilewright.gpus import load
from tilewright.launch import Descriptor, Tensor, find_kernel, make_launch

TOOLS = Path(importlib.util.find_spec("triton").origin).parent / "backends" / "nvidia" / "bin"
GPUS = ("rtx-4070-super", "h200", "mi300x")

VECTOR = Tensor.of("fp32", (4096,))

KERNELS = {
    "row sums": (
        """
        @triton.jit
        def kernel(x_ptr, y_ptr, n, stride, BLOCK: tl.constexpr):
            row = tl.program_id(0)
            i = tl.arange(0, BLOCK)
            x = tl.load(x_ptr + row * stride + i, mask=i < n, other=0.0)
            tl.store(y_ptr + row, tl.sum(x, 0))
        """,
        {"x_ptr": Tensor.of("bf16", (64, 1000)), "y_ptr": VECTOR, "n": 1000, "stride": 1000, "BLOCK": 1024},
        {},
    ),
    "autotune and heuristics": (
        """
        @triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])
        @triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
        @triton.jit
        def kernel(x_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
            i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            if EVEN:
                tl.store(x_ptr + i, tl.load(x_ptr + i) + 1)
            else:
                tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) + 1, mask=i < n)
        """,
        {"x_ptr": VECTOR, "n": 4096, "BLOCK": 128, "EVEN": True},
        {"num_warps": 2},
    ),
    "default constexpr": (
        """
        @triton.jit
        def kernel(x_ptr, n, BLOCK: tl.constexpr = 256, NEGATE: tl.constexpr = False, other=None):
            i = tl.arange(0, BLOCK)
            x = tl.load(x_ptr + i, mask=i < n)
            if NEGATE:
                x = -x
            if other is not None:
                x += tl.load(other + i)
            tl.store(x_ptr + i, x, mask=i < n)
        """,
        {"x_ptr": VECTOR, "n": 17},
        {},
    ),
    "do not specialize": (
        """
        @triton.jit(do_not_specialize=["n"])
        def kernel(x_ptr, n, m):
            i = tl.arange(0, 64)
            tl.store(x_ptr + i * m, i.to(tl.float32), mask=i < n)
        """,
        {"x_ptr": VECTOR, "n": 1, "m": 1},
        {},
    ),
    "scalars of every kind": (
        """
        @triton.jit
        def kernel(x_ptr, big, flag, nothing, scale, unsigned):
            i = tl.arange(0, 64)
            v = i.to(tl.int64) + big + unsigned.to(tl.int64)
            if flag:
                v += 1
            if nothing is None:
                v += 2
            tl.store(x_ptr + i, v.to(tl.float32) * scale)
        """,
        {
            "x_ptr": VECTOR,
            "big": 2**31 + 7,
            "flag": True,
            "nothing": None,
            "scale": 0.3,
            "unsigned": 2**63 + 1,
        },
        {},
    ),
    "misaligned pointer": (
        """
        @triton.jit
        def kernel(x_ptr, y_ptr, n):
            i = tl.arange(0, 512)
            tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)
        """,
        {"x_ptr": Tensor.of("fp16", (512,), alignment_bytes=4), "y_ptr": Tensor.of("fp16", (512,)), "n": 512},
        {},
    ),
    "matmul": (
        """
        @triton.jit
        def helper(a, b, acc):
            return tl.dot(a, b, acc)

        @triton.jit
        def kernel(a_ptr, b_ptr, c_ptr, K, stride, BLOCK: tl.constexpr):
            i, k = tl.arange(0, BLOCK), tl.arange(0, 32)
            acc = tl.zeros((BLOCK, BLOCK), tl.float32)
            for at in range(0, K, 32):
                a = tl.load(a_ptr + i[:, None] * stride + (at + k)[None, :])
                b = tl.load(b_ptr + (at + k)[:, None] * stride + i[None, :])
                acc = helper(a, b, acc)
            tl.store(c_ptr + i[:, None] * stride + i[None, :], acc.to(tl.bfloat16))
        """,
        {
            **{f"{t}_ptr": Tensor.of("bf16", (1024, 1024)) for t in "abc"},
            "K": 1024,
            "stride": 1024,
            "BLOCK": 64,
        },
        {"num_stages": 4, "num_warps": 8},
    ),
    "tensor descriptors": (
        """
        @triton.jit
        def kernel(a_desc, b_desc, c_ptr, K, BLOCK: tl.constexpr):
            i = tl.arange(0, BLOCK)
            acc = tl.zeros((BLOCK, BLOCK), tl.float32)
            for at in range(0, K, 64):
                acc = tl.dot(a_desc.load([0, at]), b_desc.load([at, 0]), acc)
            tl.store(c_ptr + i[:, None] * BLOCK + i[None, :], acc)
        """,
        {
            "a_desc": Descriptor(Tensor.of("bf16", (1024, 1024)), (128, 64)),
            "b_desc": Descriptor(Tensor.of("bf16", (1024, 1024)), (64, 128)),
            "c_ptr": Tensor.of("fp32", (128, 128)),
            "K": 1024,
            "BLOCK": 128,
        },
        {"num_stages": 3},
    ),
}

# Triton's own way, in a process of its own that has not seen Tilewright.
BY_TRITON = """
    import importlib.util, json, os, sys
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    request = json.load(sys.stdin)
    spec = importlib.util.spec_from_file_location("by_triton", request["file"])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = module.kernel
    while not isinstance(function, triton.JITFunction):
        function = function.fn
    names = function.arg_names
    constants = {(names.index(k),): v for k, v in request["constexprs"].items()}
    made = []
    for target in request["targets"]:
        # A launch tells the AMD back end too which tensors lie within 2 GB: all of them here.
        small = [["tt.pointer_range", 32]] if target[0] == "hip" else []
        attributes = {}
        for name, type_ in request["signature"].items():
            pointer = type_.startswith("*")
            found = [["tt.divisibility", 16]] * (name in request["divisible"]) + small * pointer
            if found:
                attributes[(names.index(name),)] = found
        source = ASTSource(function, request["signature"], constants, attributes)
        kernel = triton.compile(source, target=GPUTarget(*target), options=request["options"])
        if target[0] == "cuda":
            open(os.path.join(request["folder"], f"{target[1]}.cubin"), "wb").write(kernel.asm["cubin"])
        assembly = kernel.asm["ptx" if target[0] == "cuda" else "amdgcn"]
        made.append({"assembly": assembly, "shared": kernel.metadata.shared})
    print(json.dumps(made))
"""

I32, F32 = "i32", "fp32"
EXPECTED = {  # signature, constexprs, divisible by 16: written by hand, from Triton's rules for a launch
    "row sums": (
        {"x_ptr": "*bf16", "y_ptr": "*fp32", "n": I32, "stride": I32, "BLOCK": "constexpr"},
        {"BLOCK": 1024},
        ["x_ptr", "y_ptr"],
    ),
    "autotune and heuristics": (
        {"x_ptr": "*fp32", "n": I32, "BLOCK": "constexpr", "EVEN": "constexpr"},
        {"BLOCK": 128, "EVEN": True},
        ["x_ptr", "n"],
    ),
    "default constexpr": (
        {"x_ptr": "*fp32", "n": I32, "BLOCK": "constexpr", "NEGATE": "constexpr", "other": "constexpr"},
        {"BLOCK": 256, "NEGATE": False, "other": None},
        ["x_ptr"],
    ),
    "do not specialize": (
        {"x_ptr": "*fp32", "n": I32, "m": "constexpr"},
        {"m": 1},
        ["x_ptr"],
    ),
    "scalars of every kind": (
        {
            "x_ptr": "*fp32",
            "big": "i64",
            "flag": "u1",
            "nothing": "constexpr",
            "scale": F32,
            "unsigned": "u64",
        },
        {"nothing": None},
        ["x_ptr"],
    ),
    "misaligned pointer": ({"x_ptr": "*fp16", "y_ptr": "*fp16", "n": I32}, {}, ["y_ptr", "n"]),
    "matmul": (
        {"a_ptr": "*bf16", "b_ptr": "*bf16", "c_ptr": "*bf16", "K": I32, "stride": I32, "BLOCK": "constexpr"},
        {"BLOCK": 64},
        ["a_ptr", "b_ptr", "c_ptr", "K", "stride"],
    ),
}


@pytest.mark.parametrize("kernel", EXPECTED)
def test_same_code_as_triton_compile(tmp_path, kernel_file, compiler, kernel):
    body, args, options = KERNELS[kernel]
    launch = make_launch(find_kernel(f"{kernel_file(body)}:kernel"), args, (1,), **options)
    targets = [load(gpu).target for gpu in GPUS]
    results = compiler.compile([(launch, target) for target in targets])
    signature, constexprs, divisible = EXPECTED[kernel]
    theirs = by_triton(tmp_path, launch, targets, signature, constexprs, divisible, options)
    for ours, target, their in zip(results, targets, theirs, strict=True):
        assert dict(ours.signature) == signature
        assert dict(ours.constexprs) == constexprs
        assert sorted(ours.divisible_by_16) == sorted(divisible)
        assert ours.num_warps == options.get("num_warps", 4)
        assert ours.shared_bytes == their["shared"]
        assert ours.asm["ptx" if target.backend == "cuda" else "amdgcn"] == their["assembly"]
        if target.backend == "cuda":
            cubin = tmp_path / f"{target.arch}.cubin"
            assert ours.asm["sass"] == disassembled(cubin)
            usage = tool("cuobjdump", "--dump-resource-usage", cubin)
            assert ours.registers == int(re.search(r"REG:(\d+)", usage)[1])
            assert ours.stack_bytes == int(re.search(r"STACK:(\d+)", usage)[1])


def by_triton(tmp_path, launch, targets, signature, constexprs, divisible, options):
    script = tmp_path / "by_triton.py"
    script.write_text(textwrap.dedent(BY_TRITON))
    request = {
        "file": str(launch.kernel.path),
        "folder": str(tmp_path),
        "targets": [[t.backend, t.arch, t.warp_size] for t in targets],
        "signature": signature,
        "constexprs": constexprs,
        "divisible": divisible,
        "options": options,
    }
    done = subprocess.run(
        [sys.executable, script],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        env={**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "triton"), "TRITON_DEFAULT_FP_FUSION": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def disassembled(cubin):
    """The text with life ranges; Triton 3.9's nvdisasm gives them for sm_8x only under CUDA 13's header."""
    readable = cubin.with_suffix(".readable")
    readable.write_bytes(with_fewer_registers(cubin.read_bytes()))
    command = [TOOLS / "nvdisasm", "-c", "-plr", "-lrm", "narrow", readable]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        assert "Old Elf" in done.stderr
        readable.write_bytes(as_new_format(readable.read_bytes()))
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout


def tool(name, *arguments):
    return subprocess.run([TOOLS / name, *arguments], capture_output=True, text=True, check=True).stdout


def test_registers_and_spills_of_a_kernel_that_spills(tmp_path, compiler, kernel_file):
    """128 x 64 fp32 sums on one warp are 256 registers a thread, and 255 is the most that there are."""
    body = """
        @triton.jit
        def kernel(x_ptr, y_ptr, n, ROWS: tl.constexpr):
            i, j = tl.arange(0, ROWS), tl.arange(0, 64)
            at = i[:, None] * 64 + j[None, :]
            total = tl.zeros((ROWS, 64), tl.float32)
            for step in range(n):
                total = total * tl.load(x_ptr + at + step * ROWS * 64) + total
            tl.store(y_ptr + at, total)
    """
    args = {
        "x_ptr": Tensor.of("fp32", (1 << 20,)),
        "y_ptr": Tensor.of("fp32", (1 << 15,)),
        "n": 32,
        "ROWS": 128,
    }
    launch = make_launch(find_kernel(f"{kernel_file(body)}:kernel"), args, (1,), num_warps=1)
    target = load("rtx-4070-super").target
    (ours,) = compiler.compile([(launch, target)])
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32", "ROWS": "constexpr"}
    by_triton(tmp_path, launch, [target], signature, {"ROWS": 128}, ["x_ptr", "y_ptr", "n"], {"num_warps": 1})
    usage = tool("cuobjdump", "--dump-resource-usage", tmp_path / "89.cubin")
    assert ours.registers == int(re.search(r"REG:(\d+)", usage)[1])
    assert ours.stack_bytes == int(re.search(r"STACK:(\d+)", usage)[1]) > 0
    assert ours.spilled_registers == ours.stack_bytes // 4


@pytest.mark.parametrize("gpu", ["h200", "b200"])
def test_tensor_descriptors(compiler, kernel_file, gpu):
    """A descriptor argument is typed by its block, and its loads become TMA copies."""
    body, args, options = KERNELS["tensor descriptors"]
    launch = make_launch(find_kernel(f"{kernel_file(body)}:kernel"), args, (1,), **options)
    (ours,) = compiler.compile([(launch, load(gpu).target)])
    assert "tensordesc<bf16[128" in ours.signature["a_desc"].replace(" ", "")
    assert "cp.async.bulk.tensor.2d" in ours.asm["ptx"]
    assert ours.shared_bytes >= 3 * (128 * 64 + 64 * 128) * 2
    assert not ours.notes


WARP_SPECIALISED = """
    @triton.jit
    def kernel(a_desc, b_desc, c_ptr, K, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        acc = tl.zeros((BLOCK, BLOCK), tl.float32)
        for at in tl.range(0, K, 64, warp_specialize=True):
            acc = tl.dot(a_desc.load([0, at]), b_desc.load([at, 0]), acc)
        tl.store(c_ptr + i[:, None] * BLOCK + i[None, :], acc)
"""


def test_warp_specialised_kernel_counts_all_its_warps(compiler, kernel_file):
    """On sm_100 the loads and the multiply get warps of their own beside the four that were asked for."""
    _, args, options = KERNELS["tensor descriptors"]
    launch = make_launch(find_kernel(f"{kernel_file(WARP_SPECIALISED)}:kernel"), args, (1,), **options)
    (ours,) = compiler.compile([(launch, load("b200").target)])
    stated = re.search(r"\.reqntid (\d+)", ours.asm["ptx"])
    assert ours.num_warps > 4
    assert ours.num_warps * 32 == int(stated[1])
