"""Random numbers of the simulation: one seed, a separate source for every part."""

from __future__ import annotations

from random import Random


class SeededRandom(Random):
    """A source of random numbers derived from a seed and a purpose.

    Parts that draw from different sources are independent: more loss on a feed does not change what
    the traders do.
    """

    def __new__(cls, seed: int, purpose: str) -> SeededRandom:
        """Create an unseeded source; the parent would treat the arguments as a seed."""
        del seed, purpose
        return super().__new__(cls)

    def __init__(self, seed: int, purpose: str) -> None:
        super().__init__(f"{seed}/{purpose}")
