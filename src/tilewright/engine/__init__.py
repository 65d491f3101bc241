"""Parts of an inference engine. Nothing here knows the workbench."""

from tilewright.engine.blocks import BlockError, BlockManager, Copy, OutOfBlocks

__all__ = ["BlockError", "BlockManager", "Copy", "OutOfBlocks"]
