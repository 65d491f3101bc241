"""AMDGCN assembly: kinds of instructions, lines through inlined calls, loops from branches back."""

import re

import pytest

from tilewright.amdgcn import KINDS, static_counts

TEXT = """
	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
kernel:                                 ; @kernel
.Lfunc_begin0:
	.file	1 "/home/me" "kernel.py"
	.file	2 "/lib" "standard.py"
	.loc	1 10 0 prologue_end             ; kernel.py:10:0
	s_load_dwordx2 s[2:3], s[0:1], 0x0
	s_waitcnt lgkmcnt(0)
.LBB0_1:                                ; =>This Loop Header: Depth=1
	.loc	1 12 5                          ; kernel.py:12:5
	global_load_dwordx4 v[0:3], v4, s[2:3]
	buffer_load_dword v5, s[4:7], 0 offen lds
.LBB0_2:                                ;   =>  This Inner Loop Header: Depth=2
	.loc	2 191 40                        ; standard.py:191:40 @[ kernel.py:14:9 ]
	v_mfma_f32_32x32x8_bf16 a[0:15], v[0:1], v[2:3], a[0:15]
	ds_read_b128 v[0:3], v6
	ds_bpermute_b32 v7, v8, v9
	s_cbranch_scc1 .LBB0_2
; %bb.3:
	.loc	1 0 0 is_stmt 0                 ; :0:0
	buffer_store_dword v9, off, s[0:3], 0 offset:4 ; 4-byte Folded Spill
	.loc	1 15 1                          ; kernel.py:15:1
	s_barrier
	buffer_inv sc1
	s_cbranch_vccnz .LBB0_1
; %bb.4:
	s_cbranch_execz .LBB0_5
	v_add_f32_e32 v1, v2, v3
.LBB0_5:
	s_endpgm
	.section	.rodata,"a",@progbits
	.amdhsa_kernel kernel
		.amdhsa_next_free_vgpr 128
"""


def test_kinds():
    found = static_counts(TEXT, "/home/me/kernel.py")
    assert found.by_kind == {
        "matrix": 1,
        "vector": 1,
        "scalar": 5,  # a load, three branches, the end
        "shared memory": 1,
        "lane exchange": 1,
        "global": 1,
        "to shared": 1,
        "scratch": 1,
        "barriers": 1,
        "waits": 2,
    }
    assert found.instructions == sum(found.by_kind.values()) == 15
    assert list(found.by_kind) == [kind for kind in KINDS if kind in found.by_kind]


def test_lines_are_those_of_the_kernels_file():
    found = static_counts(TEXT, "/home/me/kernel.py")
    assert {x.line: x.instructions for x in found.by_line} == {10: 2, 12: 2, 14: 4, 15: 6}
    assert found.instructions - sum(x.instructions for x in found.by_line) == 1  # the spill has no line


def test_loops_are_what_branches_go_back_over():
    outer, inner = static_counts(TEXT, "/home/me/kernel.py").loops
    assert (outer.label, outer.depth, outer.instructions, outer.lines) == (".LBB0_1", 0, 10, (12, 15))
    assert (inner.label, inner.depth, inner.instructions, inner.lines) == (".LBB0_2", 1, 4, (14, 14))
    assert inner.by_kind == {"matrix": 1, "scalar": 1, "shared memory": 1, "lane exchange": 1}


def test_nothing_is_found_in_nothing():
    found = static_counts("", "kernel.py")
    assert (found.instructions, found.by_line, found.loops) == (0, (), ())


@pytest.mark.parametrize("gpu", ["mi300x", "mi250x", "mi355x", "rx-7900-xtx"])
def test_against_the_text_of_real_kernels(explain, gpu):
    """Counted another way: every line of the function that is no label, directive or comment."""
    p = explain("v6", gpu)
    text = p.compiled.asm["amdgcn"]
    body = text[text.index("flash_fwd_kernel:") : text.index(".amdhsa_kernel")]
    lines = [x.strip() for x in body.splitlines()]
    plain = [x for x in lines if re.match(r"[a-z]\w*(\s|$)", x)]
    assert p.static.instructions == len(plain)
    matrix = [x for x in plain if x.startswith(("v_mfma", "v_wmma"))]
    assert p.static.by_kind["matrix"] == len(matrix) > 0
    # The masked and the unmasked loop, each with both dots.
    assert len(p.static.loops) == 2
    assert all(loop.by_kind["matrix"] > 0 for loop in p.static.loops)
    assert all(40 <= loop.lines[0] < loop.lines[1] <= 66 for loop in p.static.loops)
