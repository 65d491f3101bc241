"""Every rule is reached: some kernel of these tests has each opcode among what its control or its addresses need."""

import importlib.util
from pathlib import Path

import pytest

import tilewright.sass.integer
import tilewright.sass.logic  # noqa: F401 (the two enter their rules into the table)
from tilewright.compile import Compiled
from tilewright.gpus import load
from tilewright.launch import Tensor, find_kernel, make_launch
from tilewright.sass.decode import RULES
from tilewright.sass.flow import Flow
from tilewright.sass.text import parse
from tilewright.sass.traffic import memory_seed

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
GPUS = ("a100-80", "rtx-4070-super", "h200", "b200", "rtx-5090")
X = Tensor.of("int32", (1 << 14,))
KERNELS = {
    "lanes.py:together": {"x_ptr": X, "a": 5, "b": 5},
    "lanes.py:reduced": {"x_ptr": X, "a": 5, "b": 5},
    "lanes.py:masks": {"x_ptr": X, "a": 5, "b": 5, "n": 5},
    "lanes.py:narrow": {"x_ptr": X, **dict.fromkeys("abcd", 5), "e": True},
    "lanes.py:spilled": {"x_ptr": Tensor.of("fp32", (1 << 14,)), "a": 5, "b": 5, "n": 5},
    "product.py:product": {
        **dict.fromkeys(("a_ptr", "b_ptr"), Tensor.of("bf16", (256, 256))),
        **dict.fromkeys(("c_ptr", "bias_ptr"), Tensor.of("fp32", (256, 256))),
        **dict.fromkeys(("rows", "depth", "columns"), 256),
        "BLOCK": 64,
    },
    "marked.py:divided": {"out_ptr": X, "a": 5, "b": 7},
    "marked.py:divided_wide": {"out_ptr": X, "a": 2**40, "b": 2**41 + 1},
    "marked.py:wide": {"out_ptr": X, "a": 2**40, "b": 2**41 + 1},
    "marked.py:persistent": {"out_ptr": X, "tiles": 5, "group": 5, "last": 5},
}
NEVER = {
    "CS2R": "of the 64-bit registers only SRZ is understood, and what is zero decides nothing here",
    "NOP": "writes nothing",
    "R2P": "the compiler unpacks predicates with LOP3 and ISETP in these kernels",
    "UP2UR": "as R2P",
    "UR2UP": "as R2P",
    "UI2FP": "division asks for rounding up, which is UI2F",
    "UMUFU": "not seen yet: the reciprocal is a vector instruction on every GPU here",
    "SYNCS": "waits write what only their own loops read; tensor copies are counted in the readings on an H200",
    "USETMAXREG": "only warp-specialised kernels have it: counted in the readings on an H200",
    "UTCATOMSWS": "allocation of tensor memory: counted with the products on sm_100",
}


def room(name):
    spec = importlib.util.spec_from_file_location(f"reached_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def reached(compiler, tmp_path_factory):
    """Opcodes with a rule in the slices of the kernels, over all GPUs."""
    folder, launches = tmp_path_factory.mktemp("reached"), []

    def add(reference, args):
        launches.append(make_launch(find_kernel(str(reference)), args, (3,)))

    for reference, args in KERNELS.items():
        add(HERE / reference, args)
    ptx, programs = room("test_ptx"), room("test_random_programs")
    sources = [(ptx.source(g), ["a", "b", "c", *(f"e{n}" for n in range(len(g)))]) for g in ptx.GROUPS]
    program = programs.Program(0, lanes=False)
    sources.append((program.source, [*programs.ARGUMENTS, *program.results]))
    for number, (source, names) in enumerate(sources):
        file = folder / f"kernel{number}.py"
        file.write_text(source)
        add(f"{file}:kernel", {"x_ptr": X, **dict.fromkeys(names, 5)})
    found = set()
    results = compiler.compile([(launch, load(gpu).target) for launch in launches for gpu in GPUS])
    for result in results:
        assert isinstance(result, Compiled), result
        flow = Flow(parse(result.asm["sass"], result.machine_code.name), shared=True)
        kept = (flow.understood[index] for index in flow.slice(memory_seed))
        found |= {u.instruction.opcode for u in kept if u.effect}
    return found


def test_every_rule_is_reached_slow(reached):
    assert set(RULES) - reached - set(NEVER) == set()


def test_what_is_said_to_be_never_reached_is_not_slow(reached):
    assert reached & set(NEVER) <= {"SYNCS", "UTCATOMSWS"}
