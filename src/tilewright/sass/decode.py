"""From an instruction to what the emulator does with it: a closed table, everything else is not understood.

A rule is found by opcode and must recognise every modifier and operand; else the instruction is *not understood*:
the registers that it writes become unknown, which poisons only what depends on them. A rule also states which
registers it writes; where that disagrees with nvdisasm's own life ranges the rule is not trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import numpy as np

from tilewright.sass.operands import (
    Constant,
    FloatImmediate,
    Immediate,
    Memory,
    Operand,
    Register,
    RegisterOperand,
    Special,
)
from tilewright.sass.text import Instruction
from tilewright.sass.values import (
    FALSE_FLAG,
    TRUE_FLAG,
    ZERO_WORD,
    Array,
    Cause,
    Flag,
    Value,
    Word,
    add,
    all_bits,
    constant,
    invert,
    lanes_unknown,
    multiply,
    negate,
)


class NotUnderstood(Exception):
    """An instruction, modifier or operand without a rule."""


class State(Protocol):
    """What rules may ask of the machine."""

    active: Array | None

    def here(self, reason: str) -> Cause: ...
    def assume(self, text: str) -> None: ...
    def read(self, register: Register) -> Value: ...
    def constant_word(self, bank: int, offset: int) -> Word: ...
    def special(self, name: str) -> Word: ...
    def constant_at(self, bank: int, index: Word, offset: int) -> Word: ...
    def load_shared(self, reference: object) -> Sequence[Value]: ...


WordReader: TypeAlias = Callable[[State], Word]
FlagReader: TypeAlias = Callable[[State], Flag]
Compute: TypeAlias = Callable[[State], Sequence[Value]]


@dataclass(frozen=True)
class Effect:
    """What an understood instruction does: the registers that it writes (RZ and PT among them) and their values."""

    writes: tuple[Register, ...]
    compute: Compute


Rule: TypeAlias = Callable[["Operands"], Effect]
RULES: dict[str, Rule] = {}
BLIND_FROM = {"UR": 63, "R": 253}
"""First register of a bank that nvdisasm's life ranges may leave out: 12.9 takes UR63 for URZ on sm_100, and
refuses a kernel that says it has all 255 registers, so it is told 254."""


def rule(*opcodes: str) -> Callable[[Rule], Rule]:
    """Enter a rule into the table under these opcodes."""

    def enter(function: Rule) -> Rule:
        for opcode in opcodes:
            assert opcode not in RULES, opcode
            RULES[opcode] = function
        return function

    return enter


def understand(instruction: Instruction) -> Effect:
    """Return the effect of an instruction; raise NotUnderstood with the reason where there is no rule."""
    found = RULES.get(instruction.opcode)
    if found is None:
        raise NotUnderstood(f"{instruction.name} has no rule")
    effect = found(Operands(instruction))
    stated = {r for r in effect.writes if r.number is not None and not is_blind(r)}
    if stated != {r for r in instruction.writes if not is_blind(r)}:
        raise NotUnderstood(f"{instruction.name}: its rule and nvdisasm disagree on what it writes")
    return effect


def address(state: State, operand: Memory) -> tuple[Word, Word | None]:
    """Return the low word of an address and its high word, None where it has 32 bits.

    The low word is unknown wherever the high one is. Raises NotUnderstood for a form of register in it.
    """
    low = constant(operand.offset)
    high: Word | None = None
    for part in operand.parts:
        scale = 1
        for suffix in part.suffixes:
            if suffix in ("X4", "X8", "X16"):
                scale = int(suffix[1:])
            elif suffix not in ("64", "U32"):
                raise NotUnderstood(f"an address with .{suffix} is not understood")
        if part.register.number is None:
            continue
        value = state.read(part.register)
        assert isinstance(value, Word)
        low = add(low, value if scale == 1 else multiply(value, constant(scale)))
        if "64" in part.suffixes:
            top = state.read(part.register.next())
            assert isinstance(top, Word)
            high = top
    if high is not None and high.unknown is not None:
        lanes, cause = lanes_unknown(low, high)
        low = Word(low.part, low.lane_part, all_bits(lanes), cause)
    return low, high


def is_blind(register: Register) -> bool:
    """Whether nvdisasm's life ranges may leave a register out."""
    return register.number is not None and register.number >= BLIND_FROM.get(register.bank, 1 << 30)


class Operands:
    """An instruction's modifiers and operands, taken one after another and checked to be used up."""

    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction
        self.opcode = instruction.opcode
        self.modifiers = list(instruction.modifiers)
        self.left = list(instruction.operands)

    def fail(self, reason: str) -> NotUnderstood:
        """Return the exception that says what is not understood here."""
        return NotUnderstood(f"{self.instruction.name}: {reason}")

    def flagged(self, modifier: str) -> bool:
        """Take a modifier if it is there."""
        if modifier in self.modifiers:
            self.modifiers.remove(modifier)
            return True
        return False

    def one_of(self, *modifiers: str, default: str | None = None) -> str:
        """Take the one modifier of these that is there."""
        for modifier in modifiers:
            if self.flagged(modifier):
                return modifier
        if default is None:
            raise self.fail(f"expected one of {', '.join(modifiers)}")
        return default

    def no_more_modifiers(self) -> None:
        """Refuse modifiers that nothing took."""
        if self.modifiers:
            raise self.fail(f"modifier {self.modifiers[0]} is not understood")

    def take(self) -> Operand:
        """Take the next operand."""
        if not self.left:
            raise self.fail("fewer operands than expected")
        return self.left.pop(0)

    def end(self) -> None:
        """Refuse operands that nothing took."""
        if self.left:
            raise self.fail("more operands than expected")

    def peek_predicate(self) -> bool:
        """Whether the next operand is a predicate."""
        return bool(
            self.left and isinstance(self.left[0], RegisterOperand) and self.left[0].register.is_predicate
        )

    def destination(self) -> Register:
        """Take a register to write."""
        found = self.take()
        if not isinstance(found, RegisterOperand) or found.negative or found.inverted or found.absolute:
            raise self.fail("expected a register to write")
        if found.suffixes not in ((), ("64",)):
            raise self.fail("the destination has a form that is not understood")
        return found.register

    def destinations(self, most: int) -> list[Register]:
        """Take up to `most` predicates to write, where predicates follow."""
        found: list[Register] = []
        while len(found) < most and self.peek_predicate():
            first = self.left[0]
            if isinstance(first, RegisterOperand) and first.inverted:
                break
            found.append(self.destination())
        return found

    def integer(self) -> int:
        """Take a whole number."""
        found = self.take()
        if not isinstance(found, Immediate):
            raise self.fail("expected a number in the instruction")
        return found.value

    def word(self, allowed: tuple[str, ...] = ()) -> WordReader:
        """Take a 32-bit operand; `allowed` are suffixes that do not change its meaning here."""
        return self.reader(self.take(), allowed)

    def signed_word(self) -> tuple[bool, WordReader]:
        """Take a 32-bit operand as (whether it is subtracted, reader of it without its sign)."""
        found = self.take()
        if isinstance(found, RegisterOperand | Constant) and found.negative:
            return True, self.reader(replace(found, negative=False))
        return False, self.reader(found)

    def pair(self) -> tuple[WordReader, WordReader]:
        """Take a 64-bit operand: its low and its high word, neither negated."""
        found = self.take()
        if isinstance(found, RegisterOperand):
            if found.negative or found.inverted or found.absolute or found.suffixes not in ((), ("64",)):
                raise self.fail("a 64-bit operand has a form that is not understood")
            high = RegisterOperand(found.register.next())
            return self.reader(RegisterOperand(found.register)), self.reader(high)
        if isinstance(found, Immediate):
            if found.value < -(1 << 31) or 1 << 31 <= found.value < 1 << 32:
                raise self.fail("how a number is extended to 64 bits is not understood")
            low, high_word = constant(found.value), constant(found.value >> 32)
            return (lambda state: low), (lambda state: high_word)
        if isinstance(found, Constant) and not (found.negative or found.inverted or found.absolute):
            high_constant = Constant(found.bank, found.index, found.offset + 4)
            return self.reader(Constant(found.bank, found.index, found.offset)), self.reader(high_constant)
        raise self.fail("a 64-bit operand has a form that is not understood")

    def reader(self, found: Operand, allowed: tuple[str, ...] = ()) -> WordReader:
        """Return a reader of a 32-bit operand."""
        if isinstance(found, Immediate):
            value = constant(found.value)
            return lambda state: value
        if isinstance(found, FloatImmediate):
            bits = constant(int(np.float32(_float(found.text)).view(np.uint32)))
            return lambda state: bits
        if isinstance(found, Special) and found.name == "SRZ":
            return lambda state: ZERO_WORD
        if not isinstance(found, (RegisterOperand, Constant)) or found.absolute:
            raise self.fail("an operand has a form that is not understood")
        if any(s not in allowed for s in found.suffixes):
            raise self.fail(f"operand suffix {found.suffixes[0]} is not understood")
        plain = (
            _register_reader(found.register) if isinstance(found, RegisterOperand) else self._constant(found)
        )
        if found.negative and found.inverted:
            raise self.fail("an operand has a form that is not understood")
        if found.negative:
            return lambda state: negate(plain(state))
        if found.inverted:
            return lambda state: invert(plain(state))
        return plain

    def _constant(self, found: Constant) -> WordReader:
        if found.index is not None:
            raise self.fail("a constant at a computed place is not understood")
        bank, offset = found.bank, found.offset
        return lambda state: state.constant_word(bank, offset)

    def predicate(self) -> FlagReader:
        """Take a predicate operand, perhaps negated."""
        found = self.take()
        if not isinstance(found, RegisterOperand) or not found.register.is_predicate:
            raise self.fail("expected a predicate")
        return predicate_reader(found)


def _register_reader(register: Register) -> WordReader:
    if register.number is None:
        return lambda state: ZERO_WORD

    def read(state: State) -> Word:
        value = state.read(register)
        assert isinstance(value, Word)
        return value

    return read


def predicate_reader(operand: RegisterOperand) -> FlagReader:
    """Return a reader of a predicate operand, perhaps negated."""
    register, inverted = operand.register, operand.inverted
    if register.number is None:
        value = FALSE_FLAG if inverted else TRUE_FLAG
        return lambda state: value

    def read(state: State) -> Flag:
        value = state.read(register)
        assert isinstance(value, Flag)
        return Flag(~value.bits, value.unknown, value.cause) if inverted else value

    return read


def _float(text: str) -> float:
    name = text.lstrip("+-").upper()
    if name in ("QNAN", "SNAN", "NAN"):
        raise NotUnderstood("a NaN in an instruction is not understood")
    return float(text)
