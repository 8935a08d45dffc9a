"""The KV cache as a pool of blocks: how many are free, and which ones hold a prefix that is known.

A block is private to one sequence, or shared under the hash of all tokens up to its end. A shared block
that no sequence uses stays cached until its room is needed; the one unused for longest goes first.
"""

from collections import OrderedDict
from collections.abc import Sequence

from scenarios.engine.profile import BLOCK_TOKENS


class BlockPool:
    """All blocks of one engine."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self._private = 0
        self._users: dict[int, int] = {}  # shared blocks in use: hash -> sequences using it
        self._idle: OrderedDict[int, None] = OrderedDict()  # cached, used by none; oldest first

    @property
    def used(self) -> int:
        """Blocks that a sequence needs now."""
        return self._private + len(self._users)

    @property
    def available(self) -> int:
        """Blocks that can be taken: free ones and idle cached ones."""
        return self.blocks - self.used

    def take(self, count: int) -> bool:
        """Give `count` private blocks to a sequence, or say that there are too few."""
        if count > self.available:
            return False
        while self._private + len(self._users) + len(self._idle) + count > self.blocks:
            self._idle.popitem(last=False)
        self._private += count
        return True

    def give_back(self, count: int) -> None:
        """Free private blocks."""
        self._private -= count

    def cached_prefix(self, hashes: Sequence[int]) -> int:
        """How many of these blocks, from the first on, are in the cache."""
        for index, block in enumerate(hashes):
            if block not in self._users and block not in self._idle:
                return index
        return len(hashes)

    def share(self, hashes: Sequence[int]) -> None:
        """Use cached blocks."""
        for block in hashes:
            self._idle.pop(block, None)
            self._users[block] = self._users.get(block, 0) + 1

    def publish(self, block: int) -> bool:
        """Turn a full private block into a shared one; False if another block holds the same already."""
        if block in self._users or block in self._idle:
            return False
        self._private -= 1
        self._users[block] = 1
        return True

    def release(self, hashes: Sequence[int]) -> None:
        """Stop using shared blocks; the last user leaves them cached."""
        # The end of a prefix is of use only with its beginning, so it must age first.
        for block in reversed(hashes):
            self._users[block] -= 1
            if not self._users[block]:
                del self._users[block]
                self._idle[block] = None


def blocks_for(tokens: int) -> int:
    """Blocks that hold so many tokens."""
    return -(-tokens // BLOCK_TOKENS)


def block_hashes(tokens: Sequence[str]) -> list[int]:
    """For each full block of a text, the hash of everything up to the block's end."""
    hashes: list[int] = []
    before = 0
    for start in range(0, len(tokens) - BLOCK_TOKENS + 1, BLOCK_TOKENS):
        before = hash((before, *tokens[start : start + BLOCK_TOKENS]))
        hashes.append(before)
    return hashes
