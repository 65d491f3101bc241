"""What the compiler makes of the flagship, against the published study on an RTX 4070 SUPER (sm_89, bf16).

Registers, spills, shared memory and static instruction counts depend on the order of operations in the
kernels: these tests fail when a kernel's text changes what it computes or when.
"""

import importlib.util
import re
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

FLAGSHIP = Path(__file__).parents[2] / "cases" / "flash_attention"
TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
TRITON = tuple(int(part) for part in triton.__version__.split(".")[:2])

has_block_pointers = pytest.mark.usefixtures("block_pointers")
published_compiler = pytest.mark.usefixtures("published_compiler")

if type(triton.language.cdiv).__name__ == "InterpretedFunction":
    pytest.skip("this process interprets kernels and cannot compile them", allow_module_level=True)


@dataclass(frozen=True)
class Compiled:
    registers: int
    spills: int  # as Triton counts them: bytes of local memory / 4
    shared_bytes: int
    warps_per_cta: list[int]
    opcodes: Counter


def load_kernel(version):
    """The @triton.jit function of one version, without its autotuner."""
    spec = importlib.util.spec_from_file_location(f"flagship_{version}", FLAGSHIP / version / "kernel.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    fn = module.flash_fwd_kernel
    return fn.fn if hasattr(fn, "configs") else fn


def compile_flagship(tmp_path, version, config, *, element="bf16", head_dim=64, is_causal=False):
    """Compile as a launch on contiguous, aligned tensors would: last strides 1, all else divisible by 16."""
    q_tile, k_tile, num_warps, num_stages = config
    fn = load_kernel(version)
    constants = {
        name: 1
        for name in fn.arg_names
        if name in ("stride_qd", "stride_kd", "stride_vd", "stride_od", "stride_lq")
    }
    constants |= {"D": head_dim, "Q_TILE_SIZE": q_tile, "K_TILE_SIZE": k_tile, "is_causal": is_causal}
    signature, attributes = {}, {}
    for position, name in enumerate(fn.arg_names):
        if name in constants:
            signature[name] = "constexpr"
        elif name == "scale":
            signature[name] = "fp32"
        else:
            pointer = "*fp32" if name == "L_ptr" else f"*{element}"
            signature[name] = pointer if name.endswith("_ptr") else "i32"
            attributes[(position,)] = [["tt.divisibility", 16]]
    constants = {(fn.arg_names.index(name),): value for name, value in constants.items()}
    kernel = triton.compile(
        ASTSource(fn, signature, constants, attributes),
        target=GPUTarget("cuda", 89, 32),
        options={"num_warps": num_warps, "num_stages": num_stages},
    )

    cubin = tmp_path / "kernel.cubin"
    cubin.write_bytes(kernel.asm["cubin"])
    usage = subprocess.run(
        [TOOLS / "cuobjdump", "--dump-resource-usage", cubin], capture_output=True, text=True, check=True
    ).stdout
    sass = subprocess.run(
        [TOOLS / "nvdisasm", "-c", cubin], capture_output=True, text=True, check=True
    ).stdout
    warps = re.search(r"#mma\w* = #ttg\.nvidia_mma<.*?warpsPerCTA = \[(\d+), (\d+)\]", kernel.asm["ttgir"])
    return Compiled(
        registers=int(re.search(r"REG:(\d+)", usage)[1]),
        spills=int(re.search(r"STACK:(\d+)", usage)[1]) // 4,
        shared_bytes=kernel.metadata.shared,
        warps_per_cta=[int(warps[1]), int(warps[2])],
        opcodes=Counter(
            re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?([A-Z][\w.]*)", sass, re.MULTILINE)
        ),
    )


# (Q tile, K tile, warps, stages), registers, spills, shared bytes, warpsPerCTA: the study's table.
PUBLISHED = [
    ((16, 16, 4, 3), 56, 0, 10752, [1, 4]),
    ((64, 32, 4, 3), 127, 0, 24576, [4, 1]),
    ((64, 32, 4, 5), 127, 0, 40960, [4, 1]),
    ((128, 64, 8, 4), 146, 0, 65536, [8, 1]),
    ((128, 128, 8, 3), 207, 0, 81920, [8, 1]),
    ((256, 64, 16, 5), 128, 4, 98304, [16, 1]),
    ((64, 256, 4, 2), 255, 152, 73728, [4, 1]),
]


def name(config):
    return "{}x{}-{}w-{}s".format(*config)


@published_compiler
@pytest.mark.parametrize("version", ["v0_baseline", "v1_tiles", "v2_autotune"])
@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: name(row[0]))
def test_published_table(tmp_path, version, row):
    config, *expected = row
    found = compile_flagship(tmp_path, version, config)
    assert [found.registers, found.spills, found.shared_bytes, found.warps_per_cta] == expected


@published_compiler
@pytest.mark.parametrize("version", ["v4_exp2", "v5_final"])
def test_published_long_sequence_config(tmp_path, version):
    found = compile_flagship(tmp_path, version, (64, 128, 4, 2))
    assert (found.registers, found.spills, found.shared_bytes) == (255, 2, 40960)


@published_compiler
@pytest.mark.parametrize("is_causal", [False, True], ids=["full", "causal"])
def test_published_effect_of_exp2(tmp_path, is_causal):
    """Version 4 drops a multiply and a range check per exponential: FMUL 320 to 177, FSETP.GEU 44 to 4."""
    before = compile_flagship(tmp_path, "v3_causal_skip", (64, 32, 4, 3), is_causal=is_causal).opcodes
    after = compile_flagship(tmp_path, "v4_exp2", (64, 32, 4, 3), is_causal=is_causal).opcodes
    assert (before["FMUL"], after["FMUL"]) == (320, 177)
    assert (before["FSETP.GEU.AND"], after["FSETP.GEU.AND"]) == (44, 4)


@has_block_pointers
@pytest.mark.parametrize(("num_stages", "shared_bytes"), [(2, 74752), (3, 107520)])
def test_fp32_head_dim_128_needs_two_stages(tmp_path, num_stages, shared_bytes):
    """sm_89 gives a block 101,376 bytes: hence version 1's rule, and the 2-stage config in every list."""
    found = compile_flagship(tmp_path, "v1_tiles", (64, 32, 4, num_stages), element="fp32", head_dim=128)
    assert found.shared_bytes == shared_bytes


@pytest.mark.parametrize("num_stages", [2, 3])
def test_version_6_fits_where_version_1_does(tmp_path, num_stages):
    found = compile_flagship(
        tmp_path, "v6_longest_first", (64, 32, 4, num_stages), element="fp32", head_dim=128
    )
    assert (found.shared_bytes <= 101_376) == (num_stages == 2)


def programs_per_sm(compiled, num_warps):
    """As the register file allows: registers per thread in steps of 8, 65,536 per SM."""
    return 65536 // (-(-compiled.registers // 8) * 8 * 32 * num_warps)


@published_compiler
@pytest.mark.parametrize("is_causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("config", [(64, 32, 4, 3), (64, 128, 4, 2)], ids=name)
def test_version_6_loses_no_program_per_sm(tmp_path, config, is_causal):
    """Under a causal mask 64-bit pointers cost registers that block pointers do not, but no occupancy."""
    before = compile_flagship(tmp_path, "v5_final", config, is_causal=is_causal)
    after = compile_flagship(tmp_path, "v6_longest_first", config, is_causal=is_causal)
    assert programs_per_sm(after, config[2]) == programs_per_sm(before, config[2])
    assert after.shared_bytes == before.shared_bytes
    assert after.warps_per_cta == [4, 1]


@pytest.mark.usefixtures("no_block_pointers")
@pytest.mark.parametrize("version", [v.name for v in sorted(FLAGSHIP.glob("v[0-5]_*"))])
def test_message_without_block_pointers(version):
    with pytest.raises(
        ImportError, match=r"shows block pointers, .*use Triton 3\.6 or 3\.7, or v6_longest_first"
    ):
        load_kernel(version)
