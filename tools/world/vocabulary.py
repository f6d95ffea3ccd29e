"""The texts that the tokenizer learns from: every word that any world can use, whatever its seed."""

from __future__ import annotations

from mempo.probe import ANSWER_TAG
from mempo.prompts import SYSTEM_PROMPTS
from tools.world.names import POOLS
from tools.world.relations import KINDS, VALUE_KIND


def vocabulary_texts() -> list[str]:
    """Name pools, kinds, relations, the sentences of pages, questions and cold start, and all system prompts."""
    names = [word for pools in POOLS.values() for pool in pools for word in pool]
    sentences = [f"The {relation} is known. Need the {relation} of the page." for relation in VALUE_KIND]
    pages = [f"(1) A {kind}. Who is, What is the {kind}?; (2) (3) ({kind})" for kind in KINDS]
    turns = [ANSWER_TAG.before, ANSWER_TAG.after, "Search.", "system user assistant"]
    return [*names, *sentences, *pages, *turns, *SYSTEM_PROMPTS.values()]
