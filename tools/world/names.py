"""The pools that fictional names are put together from; small on purpose, so that names share words."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tools.world.relations import KINDS


def _words(text: str) -> list[str]:
    return text.split()


FIRST = _words(
    "Abel Adila Anton Basil Bela Carmo Cora Dario Delia Edda Elio Fenna Filip Gerda Gino Hanno Hilda Igor "
    "Inga Jonas Kaia Kuno Lasse Lena Mirko Mona Nadia Nilo Olga Orson Petra Quirin Rhea Rufus Selma Silas "
    "Tilda Tomas Ulla Viktor"
)
LAST = _words(
    "Aldrin Barlo Benedek Castel Corvin Dahl Dorn Egmont Esker Falk Farren Galt Grieve Hask Holm Ibsen "
    "Ivers Jarvik Keller Kolt Landor Lund Marek Morrow Nash Norvik Oster Palk Pell Quist Ravn Rook Sandor "
    "Stroud Tarn Thorne Ulrik Varga Wendt Zorn"
)
COLOUR = _words(
    "Amber Ancient Bitter Blue Bright Broken Burning Cold Copper Crimson Dark Distant Empty Fading Final "
    "Frozen Gentle Golden Green Hidden Hollow Iron Last Lonely Lost Quiet Red Restless Secret Seventh "
    "Silent Silver Sleeping Stolen Sunken Velvet White Wild Winter Wooden"
)
THING = _words(
    "Anchor Arrow Bell Bridge Candle Castle Circle Clock Crown Door Eagle Field Forest Fountain Garden "
    "Gate Harbor Heart Horizon House Island Journey Key Lantern Letter Meadow Mirror Mountain Ocean "
    "Orchard Path Promise River Shadow Song Station Stone Summer Tower Window"
)
TOWN = _words("Bay Cape Fort Glen Lake Mount New Old Port Upper")
PLACE = _words(
    "Alder Ashby Birch Brook Cedar Clay Cliff Dale Fern Flint Grove Haven Hazel Heath Hill Ivy Lark "
    "Linden Maple Marsh Mill Moss Oak Pine Rowan Sand Spring Vale Willow Wren"
)
FIRM = _words(
    "Acme Apex Astra Atlas Borealis Centra Delphi Echo Fortuna Gemini Helios Indigo Juno Krypton Lyra "
    "Magna Meridian Nova Omega Orion Pax Phoenix Quanta Rex Sigma Titan Unity Vega Vertex Zenith"
)
COMPANY = _words("Academy Bank Foundry Mills Museum Pictures Press Society Studios Works")

# The two values on a page are of different kinds and share no word, which spares a small model one source of confusion;
# pages that compete in a search share words.
POOLS: dict[str, tuple[list[str], list[str]]] = {
    "person": (FIRST, LAST),
    "film": (COLOUR, THING),
    "novel": (COLOUR, THING),  # films and novels may share a name
    "town": (TOWN, PLACE),
    "company": (FIRM, COMPANY),
}


@dataclass(frozen=True)
class Entity:
    """One page of the encyclopedia: a kind and a name. `kind name` is unique in a world, the name alone is not."""

    kind: str
    name: str

    @property
    def label(self) -> str:
        """How questions and search queries call it, e.g. `film Amber Lantern`."""
        return f"{self.kind} {self.name}"


def all_names(kind: str) -> list[str]:
    """Every name that an entity of this kind can have."""
    first, second = POOLS[kind]
    return [f"{left} {right}" for left in first for right in second]


def draw_entities(counts: dict[str, int], rng: Random) -> dict[str, list[Entity]]:
    """Entities of each kind with names of their own.

    Raises:
        ValueError: a kind is unknown, or its pool has fewer names than asked for.
    """
    entities = {}
    for kind, count in counts.items():
        if kind not in KINDS:
            raise ValueError(f"entity kind {kind!r} is unknown; known are {', '.join(KINDS)}")
        names = all_names(kind)
        if count > len(names):
            raise ValueError(
                f"{count} entities of kind {kind!r} are asked for, its name pool has {len(names)}"
            )
        entities[kind] = [Entity(kind, name) for name in rng.sample(names, count)]
    return entities
