"""A byte-level BPE tokenizer of the world's own words, with ChatML turns and a Qwen-like chat template."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
TAGS = ["mem", "think", "search", "answer", "tool_response"]

# Qwen2's pre-tokenizer: words with their leading space, single digits, punctuation, newlines.
_SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message.role == 'tool' %}"
    "{{ '<|im_start|>user\n<tool_response>\n' + message.content + '\n</tool_response><|im_end|>\n' }}"
    "{% else %}"
    "{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}"
    "{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def train_tokenizer(texts: Iterable[str], *, max_vocabulary: int = 8192) -> Any:
    """A `PreTrainedTokenizerFast` in which every word of `texts`, with and without a leading space, is one token.

    Whole words matter: a model of this size copies names, and a name in pieces is many copies.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=max_vocabulary,
        min_frequency=1,
        special_tokens=[END_OF_TEXT, TURN_START, TURN_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_both_forms(texts), trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=TURN_END, pad_token=END_OF_TEXT, chat_template=CHAT_TEMPLATE
    )
    fast.add_tokens(
        [AddedToken(form, normalized=False) for tag in TAGS for form in (f"<{tag}>", f"</{tag}>")]
    )
    return fast


def _both_forms(texts: Iterable[str]) -> Iterator[str]:
    """The texts, and each of their words at the start of a line and after a space."""
    words: set[str] = set()
    for text in texts:
        words.update(re.findall(r"[^\W\d_]+", text))
        yield text
    for word in sorted(words):
        yield f"{word} {word}"


def tie_embeddings(model: Any, tokenizer: Any, likeness: float = 0.9) -> None:
    """Starts a word with and without its leading space near each other, so that a model need not learn each pair.

    The embedding of `word` becomes `likeness` times the one of ` word` plus noise, its length unchanged.
    """
    vocabulary = tokenizer.get_vocab()
    weight = model.get_input_embeddings().weight.data
    for piece, index in sorted(vocabulary.items()):
        bare = vocabulary.get(piece[1:]) if piece.startswith("Ġ") and len(piece) > 1 else None
        if bare is not None:
            weight[bare] = likeness * weight[index] + (1 - likeness**2) ** 0.5 * weight[bare]
