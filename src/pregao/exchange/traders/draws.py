"""Random numbers of the simulation: every part draws from a source of its own, by one seed."""

from __future__ import annotations

from random import Random


class Draws(Random):
    """A source of random numbers that depends on a seed and on what the numbers are for.

    Parts that draw from different sources do not disturb each other: more loss on a feed does
    not change what the traders do.
    """

    def __new__(cls, seed: int, purpose: str) -> Draws:
        """Make an unseeded source; the parent would take the arguments for a seed."""
        del seed, purpose
        return super().__new__(cls)

    def __init__(self, seed: int, purpose: str) -> None:
        super().__init__(f"{seed}/{purpose}")
