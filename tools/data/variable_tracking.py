"""Variable tracking in the manner of RULER (arXiv 2404.06654): chains of assignments hidden in a text of no interest.

A chain is `X1 = 12345.`, `X2 = X1.`, `X3 = X2.` and so on; its sentences stand apart, in this order, among those of the
other chains. Every variable of one chain is asked for by the value, in the order of the text, so that every answer has
its place.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar

from tools.data.generated_text import GeneratedText
from tools.data.made_up_words import VARIABLE, made_up_words
from tools.data.noise import hide_in_noise
from tools.data.records import DataError

MOST = 1000  # chains, and hops: far below the number of five-digit values and of variable names


@dataclass(frozen=True)
class VariableTracking:
    """What to hide.

    Attributes:
        chains: how many; one of them is asked for.
        hops: variables of a chain that take their value from another one, besides the first, which holds the number.
    """

    chains: int = 1
    hops: int = 4
    name: ClassVar[str] = "variable_tracking"
    to_shorten: ClassVar[str] = "lower --chains or --hops"

    def __post_init__(self) -> None:
        for option, value in (("chains", self.chains), ("hops", self.hops)):
            if not 1 <= value <= MOST:
                raise DataError(f"{option} is {value}: write a number from 1 to {MOST}")

    @property
    def least(self) -> int:
        """As many sentences of noise as there are assignments."""
        return self.chains * (self.hops + 1)

    def make(self, parts: int, rng: random.Random) -> GeneratedText:
        """A text with that many sentences of noise."""
        length = self.hops + 1
        names = made_up_words(self.chains * length, VARIABLE, rng)
        chains = [names[start : start + length] for start in range(0, len(names), length)]
        values = [str(value) for value in rng.sample(range(10_000, 100_000), self.chains)]
        turns = [chain for chain in range(self.chains) for _ in range(length)]
        rng.shuffle(turns)  # which chain goes on; each keeps its own order
        waiting = [
            iter([f"{to} = {source}." for to, source in zip(chain, [value, *chain], strict=False)])
            for chain, value in zip(chains, values, strict=True)
        ]
        asked = rng.randrange(self.chains)
        text = hide_in_noise([next(waiting[chain]) for chain in turns], parts, rng)
        question = (
            f"Which {length} variables hold the value {values[asked]} in the text, given to them directly or through other "
            "variables? Name them in the order in which the text assigns them, separated by semicolons."
        )
        return GeneratedText(text, question, chains[asked])

    def places(self, text: str, answer: str) -> list[int]:
        """Where the variable is assigned."""
        return [text.index(f"{answer} = ")]
