"""The same kernel explained on every architecture, and cliffs held against what the compiler then makes."""

import dataclasses
import json

import jsonschema
import pytest

from tilewright.gpus.occupancy import occupancy
from tilewright.launch import load_case
from tilewright.model import make_profile
from tilewright.report.schema import schema

UNITS = {
    "a100-80": "mma",
    "rtx-3090": "mma",
    "h200": "wgmma",
    "b200": "tcgen05",
    "rtx-5090": "mma",
    "mi300x": "mfma",
    "mi250x": "mfma",
    "mi355x": "mfma",
    "rx-7900-xtx": "wmma",
}
"""sm_80, sm_86, sm_90, sm_100, sm_120, gfx942, gfx90a, gfx950, gfx1100, and what multiplies on each."""


@pytest.mark.parametrize("gpu", UNITS)
@pytest.mark.usefixtures("block_pointers")
def test_every_target_v1(explain, gpu):
    check(explain("v1", gpu), UNITS[gpu], key_tile=32)


@pytest.mark.parametrize("gpu", UNITS)
def test_every_target_v6(explain, gpu):
    check(explain("v6", gpu), UNITS[gpu], key_tile=128)


def check(p, unit, key_tile):
    assert p.failure is None
    assert {d.unit for d in p.layout.dots} == {unit}
    in_loops = {d.shape for d in p.layout.dots if d.in_loop}
    assert in_loops == {(64, key_tile, 64), (64, 64, key_tile)}
    assert p.compiled.registers > 0
    sizes = [b.bytes for b in p.layout.buffers if b.shares_with is None]
    assert None not in sizes
    assert sum(sizes) + p.padding_bytes == p.compiled.shared_bytes
    assert 0 <= p.padding_bytes < 1024
    assert not p.compiled.notes
    jsonschema.validate(json.loads(json.dumps(p.to_dict())), schema("profile"))


CONFIGS = [(16, 16, 4, 3), (16, 16, 4, 4), (64, 32, 4, 3), (64, 32, 4, 4), (64, 32, 4, 5), (128, 64, 8, 5)]


def recompiled(compiler, p, stages):
    launch = load_case(p.launch.case).launch({**p.launch.parameters, "num_stages": stages})
    return make_profile(launch, p.gpu, compiler.compile([(launch, p.gpu.target)])[0])


@pytest.mark.usefixtures("block_pointers")
@pytest.mark.parametrize("gpu", ["rtx-4070-super", "a100-80"])
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_stage_cliffs_are_what_the_compiler_then_gives(explain, compiler, config, gpu):
    check_stage_cliffs(compiler, explain("v0", gpu, **setting(config)), config[3])


@pytest.mark.parametrize("gpu", ["rtx-4070-super", "h200"])
@pytest.mark.parametrize("config", [(64, 32, 4, 4), (64, 128, 4, 2), (64, 128, 4, 3)], ids=str)
def test_stage_cliffs_of_a_kernel_with_two_loops(explain, compiler, config, gpu):
    """v6 goes over the keys in two loops; the second one's buffers lie where the first one's lay."""
    check_stage_cliffs(compiler, explain("v6", gpu, **setting(config)), config[3])


@pytest.mark.usefixtures("block_pointers")
def test_a_launch_that_does_not_fit_names_the_stage_count_that_would(explain):
    """Published study of the flagship on an RTX 4070 SUPER: fp32, D = 128 fits with 2 stages, not with 3."""
    p = explain("v1", "rtx-4070-super", dtype="fp32", D=128)
    assert not p.fits
    (cliff,) = p.cliffs
    assert (cliff.change, cliff.shared_bytes) == ("one stage fewer (2)", 74_752)
    assert cliff.programs_per_sm == 1


def setting(config):
    return dict(zip(("Q_TILE_SIZE", "K_TILE_SIZE", "num_warps", "num_stages"), config, strict=True))


def check_stage_cliffs(compiler, p, now):
    named = {c.change: c for c in p.cliffs if "stage" in c.change}
    for by, change in ((-1, "fewer"), (1, "more")):
        stages = now + by
        cliff = named.get(f"one stage {change} ({stages})")
        then = recompiled(compiler, p, stages)
        programs = then.occupancy.programs_per_sm if then.fits else 0
        if cliff is None:
            assert then.compiled.registers != p.compiled.registers or programs == p.occupancy.programs_per_sm
            continue
        assert cliff.shared_bytes == then.compiled.shared_bytes
        assert cliff.programs_per_sm != p.occupancy.programs_per_sm
        # A change of stages may change registers too, which the model does not claim to know.
        if then.compiled.registers == p.compiled.registers:
            assert cliff.programs_per_sm == programs
            if then.fits:
                assert cliff.limiter == then.occupancy.limiter


@pytest.mark.usefixtures("block_pointers")
def test_register_and_byte_cliffs_are_the_nearest(explain):
    """One step before each cliff nothing changes yet."""
    p = explain("v1", "rtx-4070-super")
    checked = 0
    for cliff in p.cliffs:
        if "registers" not in cliff.change:
            continue
        step = 1 if cliff.registers > p.compiled.registers else -1
        for registers, same in ((cliff.registers, False), (cliff.registers - step, True)):
            o = occupancy(p.gpu, registers=registers, shared_bytes=p.compiled.shared_bytes, warps=4)
            assert (o.programs_per_sm == p.occupancy.programs_per_sm) is same
        checked += 1
    assert checked
    assert [c.programs_per_sm for c in p.cliffs] == sorted(
        (c.programs_per_sm for c in p.cliffs), reverse=True
    )


@pytest.mark.usefixtures("block_pointers")
def test_fewer_bytes_cliff_is_the_largest_size_that_one_more_program_allows(explain):
    p = explain("v0", "rtx-4070-super", Q_TILE_SIZE=64, K_TILE_SIZE=32, num_stages=6)
    (cliff,) = [c for c in p.cliffs if "bytes" in c.change]
    assert p.compiled.shared_bytes == 49_152
    assert (cliff.shared_bytes, cliff.programs_per_sm) == (33_024, 3)
    for extra, programs in ((0, 3), (1, 2)):
        o = occupancy(p.gpu, registers=127, shared_bytes=cliff.shared_bytes + extra, warps=4)
        assert o.programs_per_sm == programs


def test_too_much_tensor_memory_is_named_as_such(explain):
    """An SM of sm_100 has 512 columns (NVIDIA PTX ISA, tcgen05)."""
    p = explain("v6", "b200")
    assert p.fits
    for columns, fits in ((512, True), (1024, False)):
        q = make_profile(p.launch, p.gpu, dataclasses.replace(p.compiled, tensor_memory_columns=columns))
        assert q.fits is fits
    assert (q.does_not_fit.resource, q.does_not_fit.required, q.does_not_fit.limit) == ("tensor memory", 1024, 512)
