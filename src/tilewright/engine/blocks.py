"""Who owns which block of a paged KV cache: free list, block tables, reference counts, copy-on-write.

The manager holds no keys or values. It says where a token's go, and what has to be copied before they are written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from tilewright.errors import TilewrightError


class BlockError(TilewrightError):
    """A sequence that is not there or there already, or sizes that cannot be."""


class OutOfBlocks(BlockError):
    """More blocks are needed than are free. Nothing was changed."""


@dataclass(frozen=True)
class Copy:
    """The filled slots of a shared block, to be copied before the target is written."""

    source: int
    target: int
    slots: int


@dataclass
class _Sequence:
    table: list[int] = field(default_factory=list)
    tokens: int = 0


class BlockManager:
    """Gives out `blocks` blocks of `block_size` token slots each.

    Free blocks are given out in the order in which they became free, from block 0 at first. A block belongs to every
    sequence that has it in its table, and is free again when the last one lets it go. Only its sole owner writes into a
    block: a shared one is copied first.
    """

    def __init__(self, blocks: int, block_size: int) -> None:
        if blocks < 0 or block_size < 1:
            raise BlockError(f"expected 0 blocks or more of 1 slot or more, found {blocks} of {block_size}")
        self.block_size = block_size
        self._references = [0] * blocks
        self._free = deque(range(blocks))
        self._sequences: dict[Hashable, _Sequence] = {}

    @property
    def free_blocks(self) -> tuple[int, ...]:
        """Blocks that nobody owns, in the order in which they will be given out."""
        return tuple(self._free)

    @property
    def references(self) -> tuple[int, ...]:
        """How many sequences own each block."""
        return tuple(self._references)

    @property
    def sequences(self) -> tuple[Hashable, ...]:
        """The sequences that are held, oldest first."""
        return tuple(self._sequences)

    def table(self, sequence: Hashable) -> tuple[int, ...]:
        """Return the blocks of a sequence, in the order of its tokens."""
        return tuple(self._of(sequence).table)

    def tokens(self, sequence: Hashable) -> int:
        """Return how many tokens a sequence holds."""
        return self._of(sequence).tokens

    def slot(self, sequence: Hashable, token: int) -> tuple[int, int]:
        """Return the block and the slot in it of a sequence's token."""
        held = self._of(sequence)
        if not 0 <= token < held.tokens:
            raise BlockError(f"sequence {sequence!r} has tokens 0 to {held.tokens - 1}, found {token}")
        return held.table[token // self.block_size], token % self.block_size

    def add(self, sequence: Hashable, tokens: int = 0) -> None:
        """Begin a sequence with so many tokens; raise OutOfBlocks where they do not fit."""
        self._refuse_known(sequence)
        self._sequences[sequence] = _Sequence()
        try:
            self.append(sequence, tokens)
        except BlockError:
            del self._sequences[sequence]
            raise

    def adopt(self, sequence: Hashable, table: Sequence[int], tokens: int) -> None:
        """Begin a sequence in certain free blocks, as when a cache is restored; raise BlockError for others."""
        self._refuse_known(sequence)
        if len(table) != self._blocks_for(tokens):
            raise BlockError(
                f"{tokens} tokens take {self._blocks_for(tokens)} blocks of {self.block_size}, found "
                f"a table of {len(table)}"
            )
        for n, block in enumerate(table):
            if block not in self._free or block in table[:n]:
                raise BlockError(f"block {block} is not free; free are {list(self._free)}")
        for block in table:
            self._free.remove(block)
            self._references[block] = 1
        self._sequences[sequence] = _Sequence(list(table), tokens)

    def append(self, sequence: Hashable, tokens: int = 1) -> tuple[Copy, ...]:
        """Make room for tokens after a sequence's last; return what to copy first.

        Raise OutOfBlocks where too few blocks are free; then nothing has changed.
        """
        held = self._of(sequence)
        if tokens < 0:
            raise BlockError(f"expected 0 tokens or more, found {tokens}")
        filled = held.tokens % self.block_size
        shared = bool(tokens and filled and self._references[held.table[-1]] > 1)
        fresh = self._blocks_for(held.tokens + tokens) - len(held.table)
        if fresh + shared > len(self._free):
            raise OutOfBlocks(
                f"{tokens} tokens for sequence {sequence!r} need {fresh + shared} blocks, {len(self._free)} are free"
            )
        copies = []
        if shared:
            source = held.table[-1]
            held.table[-1] = self._take()
            self._references[source] -= 1
            copies.append(Copy(source, held.table[-1], filled))
        held.table += [self._take() for _ in range(fresh)]
        held.tokens += tokens
        return tuple(copies)

    def fork(self, parent: Hashable, child: Hashable) -> None:
        """Begin a sequence that shares all blocks of another, as when two samples continue one prompt."""
        held = self._of(parent)
        self._refuse_known(child)
        for block in held.table:
            self._references[block] += 1
        self._sequences[child] = _Sequence(list(held.table), held.tokens)

    def free(self, sequence: Hashable) -> tuple[int, ...]:
        """End a sequence; return the blocks that became free."""
        held = self._of(sequence)
        del self._sequences[sequence]
        return tuple(self._release(held.table))

    @property
    def wasted_slots(self) -> int:
        """Slots in owned blocks that hold no token: at most block_size - 1 a sequence."""
        filled: dict[int, int] = {}
        for held in self._sequences.values():
            for n, block in enumerate(held.table):
                here = min(self.block_size, held.tokens - n * self.block_size)
                filled[block] = max(filled.get(block, 0), here)
        return sum(self.block_size - here for here in filled.values())

    def _release(self, blocks: Iterable[int]) -> Iterable[int]:
        freed = []
        for block in blocks:
            self._references[block] -= 1
            if not self._references[block]:
                self._free.append(block)
                freed.append(block)
        return freed

    def _take(self) -> int:
        block = self._free.popleft()
        self._references[block] = 1
        return block

    def _blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block_size)

    def _of(self, sequence: Hashable) -> _Sequence:
        if sequence not in self._sequences:
            raise BlockError(
                f"no sequence {sequence!r}; there are: {', '.join(map(repr, self._sequences)) or 'none'}"
            )
        return self._sequences[sequence]

    def _refuse_known(self, sequence: Hashable) -> None:
        if sequence in self._sequences:
            raise BlockError(f"sequence {sequence!r} is there already")
