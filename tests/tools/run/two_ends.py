"""A model that ends its turns at either of two ids, of which only one is the chat template's, and questions for it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from mempo.agents.base import Generation, ToolReply
from mempo.agents.self_memory import SelfMemoryAgent
from mempo.prompts import format_turn
from mempo.task import Limits, Reference, Task
from mempo.tokens import ChatTokens
from mempo.trajectory import ContextMode
from tests.verl_patches.tiny import build_model
from tools.data.schema import QuestionRow, write_rows
from tools.sft.examples import Example
from tools.sft.train import TrainSettings, train

SECOND = "<|endoftext|>"
PAGE = ("Rome", "rome is a city")
LIMITS = Limits(max_turns=3, max_response_tokens=64, max_observation_tokens=32, max_context_tokens=400)


def build(root: Path) -> None:
    """`root/model` and `root/data`."""
    _write_data(root / "data")
    _write_model(root / "model")


def _task(number: int) -> Task:
    return Task(f"q{number}", f"king of town {number}?")


def _write_data(folder: Path) -> None:
    for split, numbers in (("train", range(16)), ("validation", range(16, 20))):
        rows = (
            QuestionRow(_task(number), Reference([["rome"]]), "tiny", split, index)
            for index, number in enumerate(numbers)
        )
        write_rows(folder / f"{split}.parquet", rows)
    page = {"id": "1", "title": PAGE[0], "text": PAGE[1]}
    (folder / "corpus.jsonl").write_text(json.dumps(page) + "\n")


def _write_model(folder: Path) -> None:
    """Trained to search once and to answer, in turns of which three in four end at the second id."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    build_model(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    second, template = tokenizer.convert_tokens_to_ids(SECOND), tokenizer.eos_token_id
    (folder / "generation_config.json").write_text(
        json.dumps({"eos_token_id": [template, second], "pad_token_id": second})
    )
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokens = ChatTokens(tokenizer)
    ends = [(second, second), (second, template), (template, second), (second, second)]
    examples = [
        _example(tokens, _task(number), answer, pair)
        for number in range(20)
        for answer in ("rome", "paris")
        for pair in ends
    ]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the matrices are so small that threads only wait for each other
    try:
        train(model, tokens, examples, TrainSettings(steps=110, drill_steps=0, max_tokens=2000), seed=1)
    finally:
        torch.set_num_threads(threads)
    model.save_pretrained(folder)


def _example(tokens: ChatTokens, task: Task, answer: str, ends: tuple[int, int]) -> Example:
    """What the agent's prompts and such turns look like, from the agent itself."""
    turns = [format_turn("king", "king", search="rome"), format_turn("rome", "king", answer=answer)]

    class Says:
        async def generate(self, prompt_ids: list[int], *, max_tokens: int, turn: int) -> Generation:
            ids = [*tokens.encode_own(turns[turn]), ends[turn]]
            return Generation(ids, [0.0] * len(ids))

    async def search(query: str) -> ToolReply:
        return ToolReply(f"(1) {PAGE[0]}\n{PAGE[1]}", "ok")

    agent = SelfMemoryAgent(tokens, search, prompt="brief", context=ContextMode(), limits=LIMITS)
    (row,) = asyncio.run(agent.run(task, Says())).rows()
    return Example(row.prompt_ids + row.response_ids, [0] * len(row.prompt_ids) + row.response_mask)
