"""The block manager against a plain copy of every sequence, under any order of calls; and its errors."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from tilewright.engine import BlockError, BlockManager, Copy, OutOfBlocks


class Paged(RuleBasedStateMachine):
    """Sequences whose tokens are numbers, kept twice: in slots that the manager gives out, and in a list each."""

    sequences = Bundle("sequences")

    @initialize(blocks=st.integers(0, 12), size=st.integers(1, 5))
    def begin(self, blocks, size):
        self.manager = BlockManager(blocks, size)
        self.slots = np.full((blocks, size), -1)
        self.plain = {}
        self.made = 0

    def write(self, name, tokens):
        """Append tokens as a cache would: copy what has to be copied, then write into the slots."""
        first = self.manager.tokens(name)
        before = self.manager.free_blocks, self.manager.table(name), self.manager.references
        try:
            copies = self.manager.append(name, tokens)
        except OutOfBlocks:
            assert (self.manager.free_blocks, self.manager.table(name), self.manager.references) == before
            return False
        for copy in copies:
            self.slots[copy.target, : copy.slots] = self.slots[copy.source, : copy.slots]
        for token in range(first, first + tokens):
            block, slot = self.manager.slot(name, token)
            assert self.manager.references[block] == 1, "only a sole owner writes"
            self.made += 1
            self.slots[block, slot] = self.made
            self.plain[name].append(self.made)
        return True

    @rule(target=sequences, tokens=st.integers(0, 9))
    def add(self, tokens):
        name = f"s{self.made}-{len(self.plain)}-{tokens}-{self.manager.free_blocks}"
        while name in self.plain:
            name += "'"
        self.manager.add(name)
        self.plain[name] = []
        self.write(name, tokens)
        return name

    @rule(name=sequences, tokens=st.integers(0, 7))
    def append(self, name, tokens):
        self.write(name, tokens)

    @rule(target=sequences, parent=sequences)
    def fork(self, parent):
        child = parent + "f"
        while child in self.plain:
            child += "f"
        self.manager.fork(parent, child)
        self.plain[child] = list(self.plain[parent])
        return child

    @rule(name=consumes(sequences))
    def free(self, name):
        self.manager.free(name)
        del self.plain[name]
        with pytest.raises(BlockError):
            self.manager.free(name)

    @invariant()
    def every_sequence_reads_what_was_written(self):
        for name, tokens in getattr(self, "plain", {}).items():
            assert [self.slots[self.manager.slot(name, t)] for t in range(len(tokens))] == tokens
            assert len(self.manager.table(name)) == -(-len(tokens) // self.manager.block_size)

    @invariant()
    def no_block_is_lost_or_owned_twice(self):
        if not hasattr(self, "manager"):
            return
        owned = [0] * len(self.manager.references)
        for name in self.plain:
            assert len(set(self.manager.table(name))) == len(self.manager.table(name))
            for block in self.manager.table(name):
                owned[block] += 1
        assert tuple(owned) == self.manager.references
        free = self.manager.free_blocks
        assert sorted(free) == [block for block, owners in enumerate(owned) if not owners]
        assert set(self.manager.sequences) == set(self.plain)

    @invariant()
    def waste_is_less_than_a_block_a_sequence(self):
        if hasattr(self, "manager"):
            assert 0 <= self.manager.wasted_slots <= (self.manager.block_size - 1) * max(len(self.plain), 1)


Paged.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestPaged = Paged.TestCase


def test_copy_on_write():
    manager = BlockManager(9, 2)
    manager.adopt("other", [3], 2)
    manager.adopt("A", [2, 0, 1], 5)
    manager.fork("A", "B")
    assert manager.references == (2, 2, 2, 1, 0, 0, 0, 0, 0)
    assert manager.append("A") == (Copy(1, 4, 1),)
    assert manager.table("A") == (2, 0, 4)
    assert manager.append("B") == ()
    assert manager.table("B") == (2, 0, 1)
    assert manager.references == (2, 1, 2, 1, 1, 0, 0, 0, 0)
    assert manager.free("A") == (4,)


def test_a_full_shared_block_is_not_copied():
    manager = BlockManager(3, 2)
    manager.add("A", 2)
    manager.fork("A", "B")
    assert manager.append("A") == ()
    assert manager.table("A") == (0, 1)
    assert manager.references == (2, 1, 0)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda m: m.append("A", 6), OutOfBlocks, "6 tokens for sequence 'A' need 3 blocks, 1 are free"),
        (lambda m: m.add("B", 5), OutOfBlocks, "need 3 blocks"),
        (lambda m: m.add("A"), BlockError, "'A' is there already"),
        (lambda m: m.free("C"), BlockError, "no sequence 'C'; there are: 'A'"),
        (lambda m: m.fork("A", "A"), BlockError, "'A' is there already"),
        (lambda m: m.slot("A", 3), BlockError, "tokens 0 to 2, found 3"),
        (lambda m: m.append("A", -1), BlockError, "0 tokens or more"),
        (lambda m: m.adopt("B", [0], 1), BlockError, "block 0 is not free"),
        (lambda m: m.adopt("B", [2, 2], 3), BlockError, "block 2 is not free"),
        (lambda m: m.adopt("B", [2], 3), BlockError, "3 tokens take 2 blocks of 2, found a table of 1"),
        (lambda m: BlockManager(3, 0), BlockError, "1 slot or more"),
    ],
)
def test_errors_leave_everything_as_it_was(call, error, said):
    manager = BlockManager(3, 2)
    manager.add("A", 3)
    before = manager.free_blocks, manager.table("A"), manager.references, manager.sequences
    with pytest.raises(error, match=said):
        call(manager)
    assert (manager.free_blocks, manager.table("A"), manager.references, manager.sequences) == before
