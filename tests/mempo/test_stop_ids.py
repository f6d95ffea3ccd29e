"""One set of ids ends a turn: the template's, the tokenizer's, and those that engines take from the model's folder."""

from __future__ import annotations

import ast
import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mempo.agents.base import Generation, LanguageModel, RolloutError
from mempo.agents.factory import build_agent
from mempo.messages import MessageReader
from mempo.prompts import format_turn
from mempo.stop_ids import model_end_ids
from mempo.task import Task
from mempo.tokens import ChatTokens
from mempo.trajectory import StopReason
from tests.mempo.support import ScriptedModel, ScriptedSearch, small_tokens

ROOT = Path(__file__).resolve().parents[2]
TURNS = [
    format_turn("Nothing yet.", "Look it up.", search="Silent Harbor"),
    format_turn("Directed by Mira Voss.", "Done.", answer="Mira Voss"),
]
SETTINGS: dict[str, Any] = {
    "name": "self_memory",
    "prompt": "brief",
    "context": "history",
    "max_turns": 4,
    "max_response_tokens": 200,
    "max_observation_tokens": 100,
    "max_context_tokens": 4000,
    "force_memory_prefix": False,
    "max_question_tokens": 100,
    "max_answer_tokens": 100,
}


def write_ends(folder: Path, ends: Any, file: str = "generation_config.json") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / file).write_text(json.dumps({"eos_token_id": ends}))
    return folder


def tokens_of(folder: Path, *added: str) -> tuple[ChatTokens, list[int]]:
    """A model's tokens whose folder names these added tokens, and no other, as ends."""
    ids = [small_tokens().added[name] for name in added]
    return ChatTokens(small_tokens().tokenizer, model=write_ends(folder, ids)), ids


class EndsAt(ScriptedModel):
    """Ends every turn with another id than the template's."""

    def __init__(self, tokens: ChatTokens, turns: list[str], end: int) -> None:
        super().__init__(tokens, turns)
        self.last = end

    async def generate(self, prompt_ids: list[int], *, max_tokens: int, turn: int) -> Generation:
        made = await super().generate(prompt_ids, max_tokens=max_tokens, turn=turn)
        return Generation([*made.token_ids[:-1], self.last], made.logprobs)


@pytest.mark.parametrize("told", [7, [7], [7, 9], None, []])
def test_a_folder_names_one_end_or_several_or_none(tmp_path: Path, told: Any) -> None:
    named = set(told if isinstance(told, list) else [] if told is None else [told])
    assert model_end_ids(write_ends(tmp_path, told)) == named
    ours = {small_tokens().turn_end_id, small_tokens().tokenizer.eos_token_id}
    assert ChatTokens(small_tokens().tokenizer, model=tmp_path).stop_token_ids == sorted(named | ours)


def test_without_a_generation_config_the_models_config_speaks_as_it_does_to_engines(tmp_path: Path) -> None:
    write_ends(tmp_path, [3], "config.json")
    assert model_end_ids(tmp_path) == {3}
    write_ends(tmp_path, 4)
    assert model_end_ids(tmp_path) == {4}
    assert model_end_ids(tmp_path / "nothing") == set()


@pytest.mark.parametrize("told", ["<|im_end|>", 7.0, True, -1, [7, "8"], {"id": 7}])
def test_what_is_no_id_is_refused_with_its_file(tmp_path: Path, told: Any) -> None:
    write_ends(tmp_path, told)
    with pytest.raises(
        ValueError, match=r"generation_config\.json: eos_token_id is .*: write a token id or a list"
    ):
        ChatTokens(small_tokens().tokenizer, model=tmp_path)


def test_a_torn_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [')
    with pytest.raises(ValueError, match=r"generation_config\.json: not JSON"):
        model_end_ids(tmp_path)


def test_a_tokenizer_loaded_from_a_folder_brings_the_folders_ends_along(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    small_tokens().tokenizer.save_pretrained(tmp_path)
    other = small_tokens().added["<|endoftext|>"]
    assert other not in ChatTokens(AutoTokenizer.from_pretrained(tmp_path)).stop_token_ids
    write_ends(tmp_path, [other])
    loaded = ChatTokens(AutoTokenizer.from_pretrained(tmp_path))
    assert loaded.stop_token_ids == sorted([other, loaded.turn_end_id])
    assert other in loaded.frame_ids


@pytest.mark.parametrize("context", ["history", "window:1"])
def test_a_turn_that_stops_at_the_second_end_has_ended_and_the_next_prompt_is_whole(
    tmp_path: Path, context: str
) -> None:
    tokens, (other,) = tokens_of(tmp_path, "<|endoftext|>")
    agent = build_agent({**SETTINGS, "context": context}, tokens, ScriptedSearch())
    model = EndsAt(tokens, TURNS, other)
    task = Task("q", "Who directed Silent Harbor?")
    trajectory = asyncio.run(agent.run(task, model))
    first, last = trajectory.turns
    assert trajectory.stop is StopReason.ANSWERED
    assert trajectory.final_answer() == "Mira Voss"
    assert [turn.finish for turn in trajectory.turns] == ["stop", "stop"]
    assert [turn.format_problem for turn in trajectory.turns] == [None, None]
    # What was generated stands as it is; the template's own end follows it, and is not trained.
    assert first.response_ids[-1] == other
    assert first.observation_ids[0] == tokens.turn_end_id
    assert (
        last.prompt_ids[: len(first.prompt_ids + first.response_ids)] == first.prompt_ids + first.response_ids
    )
    for row in trajectory.rows():
        assert all(row.response_mask[at] for at, token in enumerate(row.response_ids) if token == other)
        assert not any(
            row.response_mask[at] for at, token in enumerate(row.response_ids) if token == tokens.turn_end_id
        )
    # But for that one token it is the conversation of a model that ends as the template does.
    usual = asyncio.run(agent.run(task, ScriptedModel(tokens, TURNS))).turns[1].prompt_ids
    assert [token for token in last.prompt_ids if token != other] == usual
    said = MessageReader(tokens).read(last.prompt_ids).messages
    assert said == MessageReader(tokens).read(usual).messages, "over chat the second end is no text"


@pytest.mark.parametrize("name", ["chunk_memory", "full_context", "closed_book", "react", "rag"])
def test_every_agent_takes_the_second_end(tmp_path: Path, name: str) -> None:
    tokens, (other,) = tokens_of(tmp_path, "<|endoftext|>")
    boxed = name in ("chunk_memory", "full_context", "closed_book")
    settings = {**SETTINGS, "name": name}
    if boxed:
        settings |= {"context": "rewritten" if name == "chunk_memory" else "history", "verifier": "boxed_em"}
    said = [r"so \boxed{Mira Voss}"] * 2 if boxed else [turn.partition("</mem>\n")[2] for turn in TURNS]
    if name == "rag":
        said = said[1:]
    agent = build_agent(settings, tokens, None if boxed else ScriptedSearch())
    task = Task("q", "Who directed Silent Harbor?", document="Mira Voss did.")
    trajectory = asyncio.run(agent.run(task, EndsAt(tokens, said, other)))
    assert trajectory.final_answer() == "Mira Voss"
    assert {turn.finish for turn in trajectory.turns} == {"stop"}
    assert {turn.response_ids[-1] for turn in trajectory.turns} == {other}


def test_an_end_that_nobody_named_is_told_with_its_id_and_the_remedy(tmp_path: Path) -> None:
    tokens = small_tokens()
    other = tokens.added["<|endoftext|>"]
    agent = build_agent(SETTINGS, tokens, ScriptedSearch())
    model: LanguageModel = EndsAt(tokens, TURNS, other)
    with pytest.raises(RolloutError, match=rf"the last of them {other}, .*generation_config\.json") as error:
        asyncio.run(agent.run(Task("q", "Who?"), model))
    assert error.value.cause == "incomplete_generation"


def test_stop_ids_are_put_together_in_one_place_only() -> None:
    """Nobody else builds a set from `eos_token_id`, and every request and every check takes it from the tokens."""
    allowed = {
        "mempo/stop_ids.py": "the place",
        "verl_patches/trainer.py": "verl's padding rows",
        "tools/world/model.py": "writes a model's config",
        "tools/release/greedy.py": "hands the set on to transformers",
    }
    found = set()
    for room in ("mempo", "verl_patches", "eval", "tools"):
        for path in sorted((ROOT / room).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
            names |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg}
            if "eos_token_id" in names:
                found.add(str(path.relative_to(ROOT)))
    assert found == set(allowed) & found
    assert "mempo/stop_ids.py" in found
