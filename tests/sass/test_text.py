"""nvdisasm's text as instructions, a cubin's line tables and parameters: against nvdisasm itself and the PTX."""

import importlib.util
import re
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from tilewright.compile import Compiled
from tilewright.compile.cubin import read_parameters
from tilewright.compile.lines import read_lines
from tilewright.gpus import load
from tilewright.launch import Tensor, find_kernel, make_launch
from tilewright.sass.operands import (
    Constant,
    FloatImmediate,
    Immediate,
    Label,
    Memory,
    Register,
    RegisterOperand,
    SassError,
    Special,
    parse_operand,
    split_operands,
)
from tilewright.sass.text import parse

HERE = Path(__file__).parent
TOOLS = Path(importlib.util.find_spec("triton").origin).parent / "backends" / "nvidia" / "bin"
GPUS = ("a100-80", "rtx-3090", "rtx-4070-super", "h200", "b200", "rtx-5090")
MATRIX = Tensor.of("bf16", (256, 256))
KERNELS = {
    "product": (
        "product.py:product",
        {
            **dict.fromkeys(("a_ptr", "b_ptr"), MATRIX),
            "c_ptr": Tensor.of("fp32", (256, 256)),
            "bias_ptr": Tensor.of("fp32", (256,)),
            **dict.fromkeys(("rows", "depth", "columns"), 256),
            "BLOCK": 64,
        },
    ),
    "narrow": (
        "lanes.py:narrow",
        {"x_ptr": Tensor.of("int32", (1,)), "a": 3, "b": 2, "c": 7, "d": 9, "e": True},
    ),
    "reduced": ("lanes.py:reduced", {"x_ptr": Tensor.of("int32", (1,)), "a": 3, "b": 2}),
}


@pytest.fixture(scope="session")
def compiled(compiler):
    """Compile one of the kernels for a GPU."""

    def compiled(name, gpu):
        reference, args = KERNELS[name]
        launch = make_launch(find_kernel(f"{HERE / reference}"), args, (4, 4))
        (result,) = compiler.compile([(launch, load(gpu).target)])
        assert isinstance(result, Compiled), result
        return result

    return compiled


def names(registers):
    return {str(r) for r in registers}


def run_of(first, count):
    bank, number = re.fullmatch(r"(U?R)(\d+)", first).groups()
    return {f"{bank}{int(number) + i}" for i in range(count)}


def stated_width(name):
    """Registers that a load fills, by its modifiers."""
    return 4 if ".128" in name else 2 if ".64" in name else 1


WIDTHS = [
    (r"(LDG|LDS|LDL)(\.|$)", stated_width),
    (r"LDSM\.16\.M(?:T)?88\.4", lambda name: 4),
    (r"LDSM\.16\.M(?:T)?88\.2", lambda name: 2),
    (r"HMMA\.16816\.F32", lambda name: 4),
    (r"HGMMA\.64x(\d+)x16\.F32", lambda name: int(re.search(r"64x(\d+)x", name)[1]) // 2),
    (r"LDTM", lambda name: int(re.search(r"\.x(\d+)", name)[1])),
    (r"IMAD\.WIDE|LDC\.64|LDCU\.64|ULDC\.64", lambda name: 2),
    (r"(FADD|FMUL|FFMA|FSEL|MUFU|LOP3|IADD3|SHF|S2R|SEL)(\.|$)", lambda name: 1),
]


@pytest.mark.parametrize("gpu", GPUS)
def test_what_is_written_by_opcode(compiled, gpu):
    """Widths from the opcodes' own modifiers; nvdisasm's life ranges say the same."""
    code = parse(compiled("product", gpu).asm["sass"], "product")
    checked = set()
    for i in code.instructions:
        if i.never_runs:
            continue
        for pattern, width in WIDTHS:
            if re.match(pattern, i.name):
                into = next(
                    (
                        o.register
                        for o in i.operands
                        if isinstance(o, RegisterOperand) and not o.register.is_predicate
                    ),
                    None,
                )
                if into is None or into.number is None:
                    continue
                general = {r for r in i.writes if not r.is_predicate}
                assert names(general) == run_of(str(into), width(i.name)), i.text
                checked.add(i.opcode)
        if i.opcode in ("STG", "STS", "BAR", "EXIT", "BRA", "LDGSTS", "DEPBAR", "NOP"):
            assert not i.writes, i.text
        if i.opcode in ("ISETP", "FSETP"):
            assert i.writes
            assert all(r.is_predicate for r in i.writes), i.text
    tensor = {"h200": "HGMMA", "b200": "LDTM"}.get(gpu, "HMMA")
    assert {tensor, "LDG", "IADD3", "LOP3"} <= checked


KNOWN_NAMES = r"SR_\w+|SRZ|B\d+|SB\d|gsb0|U?PR|\{[\d,]+\}|[A-Z][\w.]*|R\d+ `\(\w+\)"
"""Special registers, barriers, predicates as a whole, and the address that RET goes back to."""


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("name", KERNELS)
def test_every_line_is_an_instruction(compiled, name, gpu):
    text = compiled(name, gpu).asm["sass"]
    code = parse(text, name)
    assert len(code.instructions) == len(re.findall(r"^\s+/\*[0-9a-f]{4,}\*/\s+\S", text, re.MULTILINE))
    assert all(b.pc - a.pc == 16 for a, b in pairwise(code.instructions))
    assert [i.index for i in code.instructions] == list(range(len(code.instructions)))
    for i in code.instructions:
        assert ("@" in i.text) == (i.guard is not None)
        for o in i.operands:
            # What is printed in a form that is not known would be a Special.
            if isinstance(o, Special):
                assert re.fullmatch(KNOWN_NAMES, o.name), i.text
        if i.opcode in ("BRA", "BSSY"):
            assert i.target is not None, i.text
        stated = {
            o.register
            for o in i.operands
            if isinstance(o, RegisterOperand) and o.register.number is not None and o.register.number < 60
        }
        assert stated <= i.writes | i.reads, i.text


def assembled(folder, ptx, gpu):
    """Assemble PTX with line information, as Triton does."""
    source, cubin = folder / "kernel.ptx", folder / "kernel.cubin"
    source.write_text(ptx)
    target = re.search(r"\.target (sm_\w+)", ptx)[1]
    for tool in ("ptxas", "ptxas-blackwell"):
        done = subprocess.run(
            [TOOLS / tool, "-lineinfo", f"--gpu-name={target}", source, "-o", cubin],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return cubin
    raise AssertionError(done.stderr)


def annotated(cubin, option):
    """The (file, line) of each instruction by its offset, as nvdisasm prints them."""
    done = subprocess.run(
        [TOOLS / "nvdisasm", "-c", option, cubin], capture_output=True, text=True, check=True
    )
    found, current = {}, None
    for line in done.stdout.splitlines():
        if match := re.match(r'\s*//## File "(.*)", line (\d+)', line):
            current = (match[1], int(match[2]))
        elif match := re.match(r"\s+/\*([0-9a-f]{4,})\*/", line):
            found[int(match[1], 16)] = current
    return found


def looked_up(table, pc):
    at = max((n for n, row in enumerate(table.rows) if row[0] <= pc), default=None)
    if at is None:
        return None
    _, file, line = table.rows[at]
    return (table.files[file] if 0 <= file < len(table.files) else None, line)


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("name", KERNELS)
def test_line_tables_are_what_nvdisasm_prints(compiled, tmp_path, name, gpu):
    cubin = assembled(tmp_path, compiled(name, gpu).asm["ptx"], gpu)
    for option, section in (("-g", ".debug_line"), ("-gp", ".nv_debug_line_sass")):
        table, expected = read_lines(cubin.read_bytes(), name, section), annotated(cubin, option)
        assert len({place for place in expected.values() if place}) > 3
        for pc, place in expected.items():
            found = looked_up(table, pc)
            if option == "-gp":
                found, place = found and found[1], place and place[1]
            assert found == place, hex(pc)


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("name", KERNELS)
def test_parameters_lie_where_the_ptx_says(compiled, tmp_path, name, gpu):
    """In the order and alignment that the PTX declares them with, from 0x160, 0x210 or 0x380 on."""
    result = compiled(name, gpu)
    ptx = result.asm["ptx"]
    fields, at = [], 0
    for bits in re.findall(r"\.param \.\w(\d+)", ptx[: ptx.index("\n)")]):
        size = int(bits) // 8
        at = -(-at // size) * size
        fields.append((at, size))
        at += size
    assert len(fields) > 3
    layout = read_parameters(assembled(tmp_path, ptx, gpu).read_bytes(), name)
    assert list(layout.fields) == fields == list(result.machine_code.parameters)
    base = {8: 0x160, 9: 0x210}.get(load(gpu).target.arch // 10, 0x380)
    assert layout.base == result.machine_code.parameters_at == base


OPERANDS = {
    "R4": RegisterOperand(Register("R", 4)),
    "-R4.reuse": RegisterOperand(Register("R", 4), negative=True),
    "~UR63": RegisterOperand(Register("UR", 63), inverted=True),
    "|R7|": RegisterOperand(Register("R", 7), absolute=True),
    "-|R7|": RegisterOperand(Register("R", 7), negative=True, absolute=True),
    "!UPT": RegisterOperand(Register("UP", None), inverted=True),
    "R4.64": RegisterOperand(Register("R", 4), suffixes=("64",)),
    "R4.H0_H0": RegisterOperand(Register("R", 4), suffixes=("H0_H0",)),
    "0x7f": Immediate(0x7F),
    "-0x8": Immediate(-8),
    "+INF": FloatImmediate("+INF"),
    "-1.5e-08": FloatImmediate("-1.5e-08"),
    "c[0x0][0x160]": Constant(0, None, 0x160),
    "-c[0x3][R4+0x8]": Constant(3, RegisterOperand(Register("R", 4)), 8, negative=True),
    "[R2.64+-0x10]": Memory("", None, (RegisterOperand(Register("R", 2), suffixes=("64",)),), -16),
    "desc[UR4][R2.64+UR6+0x20]": Memory(
        "desc",
        RegisterOperand(Register("UR", 4)),
        (RegisterOperand(Register("R", 2), suffixes=("64",)), RegisterOperand(Register("UR", 6))),
        32,
    ),
    "`(.L_x_3)": Label(".L_x_3"),
    "32@lo((kernel + .L_x_1@srel))": Label("(kernel + .L_x_1@srel)", "lo"),
    "SR_TID.X": Special("SR_TID.X"),
    "gsb0": Special("gsb0"),
}  # fmt: skip


@pytest.mark.parametrize("text", OPERANDS)
def test_operands(text):
    assert parse_operand(text) == OPERANDS[text]


def test_operands_are_split_outside_brackets():
    assert split_operands("R0, [R2.64+0x4], {1,2}, `(.L_x_0)") == ["R0", "[R2.64+0x4]", "{1,2}", "`(.L_x_0)"]
    assert split_operands("") == []


BAD = [
    ("", "no instructions found"),
    ("hello", "no instructions found"),
    ("        /*0000*/                   EXIT ;", "no register life ranges"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_text_that_is_something_else(text, message):
    with pytest.raises(SassError, match=message):
        parse(text)


def test_a_kernel_that_is_not_there(compiled):
    with pytest.raises(SassError, match=r"no instructions found in the section \.text\.other"):
        parse(compiled("narrow", "h200").asm["sass"], "other")
