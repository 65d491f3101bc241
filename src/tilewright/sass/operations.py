"""What kind of work an instruction is: its pipe, and the tensor operations of one execution by one warp.

Tensor shapes are in the instruction's name: HMMA.16816 multiplies 16x16 by 16x8 per warp, HGMMA.64x32x16 64x16 by
16x32 per warp group, a quarter of it per warp (Nsight Compute's sm__ops_path_tensor_* counters agree, see
docs/counters.md). The shape of UTC*MMA (sm_100) is in its instruction descriptor (PTX ISA, tcgen05).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilewright.sass.text import Instruction

_MMA_SHAPES = {
    "884": (8, 8, 4),
    "1684": (16, 8, 4),
    "1688": (16, 8, 8),
    "16816": (16, 8, 16),
    "16832": (16, 8, 32),
    "16864": (16, 8, 64),
    "168128": (16, 8, 128),
    "168256": (16, 8, 256),
}
_TYPES = {
    "F16": "fp16",
    "BF16": "bf16",
    "TF32": "tf32",
    "F32": "fp32",
    "F64": "fp64",
    "E4M3": "fp8e4m3",
    "E5M2": "fp8e5m2",
    "E2M1": "fp4e2m1",
    "E2M3": "fp6e2m3",
    "E3M2": "fp6e3m2",
    "S8": "int8",
    "U8": "uint8",
    "S4": "int4",
    "U4": "uint4",
}
_MMA = ("HMMA", "IMMA", "DMMA", "QMMA", "OMMA", "BMMA")
_GMMA = ("HGMMA", "IGMMA", "QGMMA", "BGMMA")
_UTC_K_BYTES = 32


@dataclass(frozen=True)
class TensorKind:
    """Types of a tensor instruction, and its operations per warp; None where only its descriptor says."""

    inputs: str
    accumulator: str
    operations: int | None


def tensor_kind(instruction: Instruction) -> TensorKind | None:
    """Return what a tensor instruction does; None for an instruction that is none.

    Raises ValueError for one whose shape or types are not known.
    """
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode in _MMA:
        shape = next((_MMA_SHAPES[m] for m in modifiers if m in _MMA_SHAPES), None)
        if shape is None:
            raise ValueError(f"the shape of {instruction.name} is not known")
        if "SP" in modifiers:
            raise ValueError(f"{instruction.name} is sparse: its operations are not known")
        rows, columns, depth = shape
        return TensorKind(*_types(instruction), 2 * rows * columns * depth)
    if opcode in _GMMA:
        found = next((re.fullmatch(r"(\d+)x(\d+)x(\d+)", m) for m in modifiers if "x" in m), None)
        if found is None or "SP" in modifiers:
            raise ValueError(f"the shape of {instruction.name} is not known")
        rows, columns, depth = (int(n) for n in found.groups())
        return TensorKind(*_types(instruction), 2 * rows * columns * depth // 4)
    if opcode.startswith("UTC") and opcode.endswith("MMA"):
        kinds = {"UTCHMMA": "16-bit", "UTCQMMA": "8-bit", "UTCIMMA": "int8", "UTCOMMA": "4-bit"}
        return TensorKind(kinds.get(opcode, opcode), "tensor memory", None)
    return None


def utc_operations(opcode: str, descriptor: int) -> int | None:
    """Operations of a UTC*MMA from its instruction descriptor: N >> 3 in bits 17-22, M >> 4 in bits 24-28.

    Source: PTX ISA, tcgen05 instruction descriptor; the depth is 32 bytes of each operand's row.
    """
    columns, rows = (descriptor >> 17 & 0x3F) << 3, (descriptor >> 24 & 0x1F) << 4
    if opcode == "UTCHMMA":
        depth = 8 if descriptor >> 7 & 0x7 == 2 else _UTC_K_BYTES // 2
    elif opcode in ("UTCQMMA", "UTCIMMA"):
        depth = _UTC_K_BYTES
    else:
        return None
    return 2 * rows * columns * depth


def _types(instruction: Instruction) -> tuple[str, str]:
    """Return (input types, accumulator type)."""
    modifiers = [m for m in instruction.modifiers if m in _TYPES]
    if instruction.opcode in ("IMMA", "IGMMA"):
        inputs = modifiers[:2] or ["S8"]
        return _joined(inputs), "int32"
    if instruction.opcode == "DMMA":
        return "fp64", "fp64"
    if instruction.opcode in ("BMMA", "BGMMA"):
        return "b1", "int32"
    accumulator = modifiers[0] if modifiers else "F32"
    inputs = modifiers[1:3]
    if not inputs:
        inputs = ["F16"]
    return _joined(inputs), _TYPES[accumulator]


def _joined(inputs: list[str]) -> str:
    names = list(dict.fromkeys(_TYPES[i] for i in inputs))
    return " x ".join(names)


def pipe(instruction: Instruction) -> str:
    """Return the pipe that executes an instruction, by Nsight Compute's names; `other` where no reading tells.

    The table is what `sm__inst_executed_pipe_*` adds up to, instruction by instruction, in the readings on an H200
    (results/h200_counters_read.json.gz; a test holds it to them). On other GPUs it is taken over.
    """
    opcode = instruction.opcode
    if opcode == "DMMA":
        return "fp64"
    if opcode.endswith("MMA") or (opcode == "HFMA2" and "MMA" in instruction.modifiers):
        return "tensor"
    if opcode == "S2R":
        # What differs by lane comes through the load/store unit.
        return "lsu" if any(name in instruction.text for name in ("SR_TID", "SR_LANEID")) else "other"
    return _PIPES.get(opcode, "other")


_GROUPS = {
    "lsu": (
        "LDG STG LDS STS LDSM STSM LDGSTS LDGDEPBAR SHFL LDL STL LD ST ATOM ATOMG ATOMS RED REDG REDUX MATCH CCTL "
        "MEMBAR FENCE"
    ),
    "alu": (
        "ISETP IADD3 LOP3 SEL LEA PRMT SHF FSETP F2FP FSEL CS2R MOV FMNMX FMNMX3 R2UR PLOP3 SGXT P2R R2P IABS ELECT "
        "I2FP VOTE IMNMX VIMNMX VIMNMX3 VIADDMNMX BMSK FCHK FSET HMNMX2 HSETP2 IADD"
    ),
    "fma": "IMAD FFMA FMUL FADD VIADD HADD2 HFMA2 HMUL2 FFMA2 FADD2 FMUL2 IDP",
    "xu": "MUFU I2F F2I F2F FLO POPC BREV FRND",
    "fp64": "DFMA DADD DMUL DSETP",
    "cbu": "EXIT BSSY BSYNC BRX CALL RET",
    "uniform": "UIADD3 ULEA USHF USEL UISETP USGXT UIMAD ULOP3 UPLOP3 UPRMT UBMSK UFLO UPOPC UVIMNMX UIMNMX UIABS",
    "tma": "UTMALDG UTMASTG UTMAREDG UTMACMDFLUSH UTMAPF UTMACCTL UBLKCP UBLKPF",
}
_PIPES = {opcode: name for name, opcodes in _GROUPS.items() for opcode in opcodes.split()}
