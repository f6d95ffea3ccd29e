"""Memories of a finished evaluation, scored by a model folder and by an endpoint: the same numbers."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from rich.table import Table
from transformers import MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM

from eval.completion import ID_PREFIX
from eval.endpoint import EndpointSettings
from eval.errors import EvalError
from eval.probe_command import probe_report, probe_with_endpoint, probe_with_folder
from eval.probe_log import read_probes
from eval.prompt_logprobs import parse_prompt_logprobs
from eval.run import data_settings, evaluate, run_settings
from eval.run_folder import read_records
from eval.sample_log import SampleLog
from eval.tasks import read_questions
from mempo.agents.base import RolloutError
from tests.eval.support import AGENT, MODEL, FakeEndpoint, serving, write_questions
from tests.mempo.support import small_tokens
from tools.search.client import SearchSettings

SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "initializer_range": 0.3,  # opinions: near-uniform log-probs would hide a wrong context
}
# `all`: a random model predicts no answer token above the usual threshold.
RULES = {"likelihood": "all", "aliases": "first"}
QUIET = Console(file=io.StringIO())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with the tokenizer of the tests."""
    folder = tmp_path_factory.mktemp("models") / MODEL
    torch.manual_seed(0)
    tokenizer = small_tokens().tokenizer
    Qwen2ForCausalLM(Qwen2Config(vocab_size=len(tokenizer), **SIZES)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def fake(model: Path) -> Iterator[FakeEndpoint]:
    with serving(FakeEndpoint()) as endpoint:
        endpoint.model = Qwen2ForCausalLM.from_pretrained(model).eval()
        yield endpoint


@pytest.fixture
def run(fake: FakeEndpoint, tmp_path: Path) -> Path:
    """An evaluation of six questions, one of which failed."""
    fake.trouble = lambda number, prompt: 400 if "Question 5?" in prompt else None
    data = write_questions(tmp_path / "v.parquet", 6)
    questions = read_questions(data)
    endpoint, search = EndpointSettings(fake.url, MODEL, retries=0), SearchSettings(fake.url)
    settings = run_settings(
        model={"name": MODEL},
        data=data_settings(data, questions),
        agent=AGENT,
        endpoint=endpoint,
        search=search,
    )
    log = SampleLog(tmp_path / "run", settings)
    tokenizer = small_tokens().tokenizer
    evaluate(
        questions, tokenizer=tokenizer, agent=AGENT, endpoint=endpoint, search=search, log=log, console=QUIET
    )
    fake.requests.clear()
    return log.folder


def by_folder(run: Path, model: Path, **rules: str) -> dict[str, Any]:
    return probe_with_folder(run, model, {**RULES, **rules}, "cpu", tokenizer=None, console=QUIET)


def by_endpoint(run: Path, fake: FakeEndpoint, tokenizer: Path) -> dict[str, Any]:
    settings = EndpointSettings(fake.url, MODEL, retries=0, connections=4)
    return probe_with_endpoint(run, settings, RULES, tokenizer=str(tokenizer), console=QUIET)


def forget(run: Path) -> None:
    for name in ("probe.jsonl", "probe_settings.json", "probe_summary.json"):
        (run / name).unlink()


def test_a_folder_and_an_endpoint_give_the_same_probabilities(
    run: Path, model: Path, fake: FakeEndpoint
) -> None:
    here, lines = by_folder(run, model), read_probes(run)
    forget(run)
    there, told = by_endpoint(run, fake, model), read_probes(run)
    assert lines.keys() == told.keys()
    for name, line in lines.items():
        for ours, theirs in zip(line["probe"], told[name]["probe"], strict=True):
            assert (ours["turn"], ours["status"]) == (theirs["turn"], theirs["status"])
            for side in ("p_memory", "p_history"):
                assert ours[side] == (theirs[side] and pytest.approx(theirs[side], rel=1e-3))
    assert here["n"] == there["n"] == 5
    assert here["p_memory"] == pytest.approx(there["p_memory"], rel=1e-3)
    assert 0 < here["p_memory"] < 1
    assert here["p_memory"] != pytest.approx(here["p_history"], rel=1e-3)


def test_scores_of_an_earlier_version_are_not_mixed_with_new_ones(run: Path, model: Path) -> None:
    by_folder(run, model)
    settings = run / "probe_settings.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "version": 1}))
    with pytest.raises(EvalError, match=r"version.*remove probe\.jsonl and probe_settings\.json"):
        by_folder(run, model)


def test_the_summary_accounts_for_every_turn(run: Path, model: Path) -> None:
    summary = by_folder(run, model)
    assert (summary["questions"], summary["turns"]) == (6, 10)  # the failed question has none
    assert summary["statuses"] == {
        "first": 5,
        "missing": 0,
        "unclosed": 0,
        "too_long": 0,
        "no_signal": 0,
        "scored": 5,
    }
    turns = [turn for line in read_probes(run).values() for turn in line["probe"]]
    scored = [turn for turn in turns if turn["status"] == "scored"]
    assert summary["p_history"] == pytest.approx(sum(turn["p_history"] for turn in scored) / 5)
    assert summary["helps"] == sum(turn["p_memory"] > turn["p_history"] for turn in scored) / 5
    assert summary["by_turn"].keys() == {"2"}
    assert summary["by_turn"]["2"]["p_memory"] == summary["p_memory"]
    assert json.loads((run / "probe_summary.json").read_text()) == summary
    assert table_headers(probe_report("memories", summary))[3] == "P(answer | history)"


def table_headers(report: Table | str) -> list[str]:
    assert isinstance(report, Table)
    return [str(column.header) for column in report.columns]


READER = {
    **AGENT,
    "name": "chunk_memory",
    "context": "rewritten",
    "max_observation_tokens": 24,
    "max_response_tokens": 40,
    "max_question_tokens": 40,
    "max_answer_tokens": 40,
    "verifier": "boxed_em",
}


def read_documents(fake: FakeEndpoint, folder: Path, lengths: list[int], agent: dict[str, Any]) -> Path:
    """An evaluation of an agent that reads, over documents of so many sentences."""
    data = folder / "read.jsonl"
    records = [
        {"id": f"d{n}", "question": "Who?", "answers": ["Mira"], "document": "It was (so)! " * length}
        for n, length in enumerate(lengths)
    ]
    data.write_text("".join(json.dumps(record) + "\n" for record in records))
    fake.said = lambda text: "known so far" if "Page:" in text else "\\boxed{Mira}"  # type: ignore[method-assign]
    questions, endpoint = read_questions(data), EndpointSettings(fake.url, MODEL, retries=0)
    settings = run_settings(
        model={"name": MODEL},
        data=data_settings(data, questions),
        agent=agent,
        endpoint=endpoint,
        search=None,
    )
    log = SampleLog(folder / agent["name"], settings)
    tokenizer = small_tokens().tokenizer
    summary = evaluate(
        questions, tokenizer=tokenizer, agent=agent, endpoint=endpoint, search=None, log=log, console=QUIET
    )
    assert summary["failures"] == {}
    fake.requests.clear()
    return log.folder


def test_memories_of_a_reader_are_compared_with_the_memory_before(
    fake: FakeEndpoint, model: Path, tmp_path: Path
) -> None:
    folder = read_documents(fake, tmp_path, [1, 5], READER)
    summary = by_folder(folder, model)
    lines = read_probes(folder)
    assert len(lines["d0"]["probe"]) == 1  # one chunk: its memory is compared with none
    assert len(lines["d1"]["probe"]) == 2
    turns = [turn for line in lines.values() for turn in line["probe"]]
    assert {turn["status"] for turn in turns} == {"scored"}
    assert summary["n"] == summary["turns"] == len(turns)
    assert summary["reference"] == "previous_memory"
    mean = sum(turn["p_previous_memory"] for turn in turns) / len(turns)
    assert summary["p_previous_memory"] == pytest.approx(mean)
    # The same words every time: after the first one, a memory is compared with itself.
    assert all(turn["p_memory"] == pytest.approx(turn["p_previous_memory"]) for turn in turns if turn["turn"])
    assert turns[0]["p_memory"] != pytest.approx(turns[0]["p_previous_memory"], rel=1e-3)
    assert not any("p_history" in turn for turn in turns)
    assert table_headers(probe_report("memories", summary))[3] == "P(answer | previous memory)"
    shown = read_records(folder)
    assert {record.reference for record in shown} == {"previous memory"}
    score = shown[0].turns[0].score
    assert score is not None
    assert score.p_reference == pytest.approx(turns[0]["p_previous_memory"])


def test_where_nothing_can_be_compared_it_says_so_in_words(
    fake: FakeEndpoint, model: Path, tmp_path: Path
) -> None:
    alone = READER | {"name": "full_context", "context": "history"}
    report = probe_report("memories", by_folder(read_documents(fake, tmp_path, [1], alone), model))
    assert report == (
        "memories: nothing to compare; no finished question has a turn that was asked for a memory"
    )


def test_where_all_scoring_failed_it_is_an_error_with_the_cause(
    run: Path, model: Path, fake: FakeEndpoint
) -> None:
    fake.trouble = lambda number, prompt: 400
    with pytest.raises(
        EvalError, match=r"to be scored failed \(status_400 5\).*as told.*takes no such request"
    ):
        by_endpoint(run, fake, model)
    asked = len(fake.requests)
    fake.trouble = lambda number, prompt: 400 if number == asked else None
    assert by_endpoint(run, fake, model)["questions"] > 0  # one that fails among others is counted


def test_a_first_memory_alone_has_no_history_and_the_report_says_so(run: Path, model: Path) -> None:
    samples = run / "samples.jsonl"
    kept = []
    for line in samples.read_text().splitlines():
        sample = json.loads(line)
        if sample["trajectory"]:
            del sample["trajectory"]["turns"][1:]
        kept.append(json.dumps(sample) + "\n")
    samples.write_text("".join(kept))
    report = probe_report("memories", by_folder(run, model))
    assert report == (
        "memories: nothing to compare; memories without a score: first 5; a first memory has no history to be compared "
        "with"
    )


def test_probing_goes_on_where_it_was(run: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = by_folder(run, model)
    path = run / "probe.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]) + lines[3][:20])  # killed while it wrote the fourth
    assert by_folder(run, model) == whole
    assert path.read_bytes().splitlines(keepends=True) == lines
    monkeypatch.setattr("eval.local_scorer.LocalScorer", None)  # a finished one loads no model
    assert by_folder(run, model) == whole


def test_other_settings_are_refused_by_name(run: Path, model: Path) -> None:
    by_folder(run, model)
    with pytest.raises(EvalError, match=r"memory\.likelihood: 'all' → 'either'.*remove probe.jsonl"):
        by_folder(run, model, likelihood="either")


def test_a_failed_request_leaves_its_sample_for_the_next_time(
    run: Path, model: Path, fake: FakeEndpoint
) -> None:
    fake.trouble = lambda number, prompt: 500 if "Question 2?" in prompt else None
    summary = by_endpoint(run, fake, model)
    assert summary["unscored"] == {"status_500": 1}
    assert (summary["questions"], summary["n"]) == (5, 4)
    fake.trouble = lambda number, prompt: None
    fake.requests.clear()
    summary = by_endpoint(run, fake, model)
    assert (summary["unscored"], summary["n"]) == ({}, 5)
    assert len(fake.requests) == 2  # memory and history of one turn


def test_a_dead_endpoint_ends_the_probing(run: Path, model: Path, fake: FakeEndpoint) -> None:
    fake.url = "http://127.0.0.1:9"
    with pytest.raises(EvalError, match="does not answer"):
        by_endpoint(run, fake, model)


def test_an_endpoint_without_log_probs_of_prompts_is_refused(
    run: Path, model: Path, fake: FakeEndpoint
) -> None:
    fake.trouble = lambda number, prompt: b'{"choices": [{"text": "x", "logprobs": null}]}'
    with pytest.raises(EvalError, match="score with a model folder"):
        by_endpoint(run, fake, model)


def test_token_ids_of_another_tokenizer_are_refused(run: Path, model: Path) -> None:
    samples = run / "samples.jsonl"
    shifted = []
    for line in samples.read_text().splitlines():
        sample = json.loads(line)
        for turn in (sample["trajectory"] or {"turns": []})["turns"]:
            turn["response_ids"] = [max(token - 9, 0) for token in turn["response_ids"]]
        shifted.append(json.dumps(sample) + "\n")
    samples.write_text("".join(shifted))
    with pytest.raises(EvalError, match="not of this tokenizer"):
        by_folder(run, model)


def test_a_model_that_the_tree_cannot_score_is_scored_sequence_by_sequence(run: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    tokenizer = small_tokens().tokenizer
    windowed = MistralConfig(vocab_size=len(tokenizer), sliding_window=64, head_dim=8, **SIZES)
    MistralForCausalLM(windowed).save_pretrained(tmp_path / "windowed")
    tokenizer.save_pretrained(tmp_path / "windowed")
    told = io.StringIO()
    summary = probe_with_folder(
        run, tmp_path / "windowed", RULES, "cpu", tokenizer=None, console=Console(file=told, width=300)
    )
    assert summary["n"] == 5
    assert "one sequence per probe: it has layers of sliding_attention" in told.getvalue()


def body(**choice: Any) -> bytes:
    return json.dumps({"choices": [choice]}).encode()


def entries(*ids: int) -> list[Any]:
    return [None, *({str(token): {"logprob": -0.5}} for token in ids[1:])]


def test_an_echo_is_read_where_there_are_no_prompt_logprobs() -> None:
    tokens = [f"{ID_PREFIX}{token}" for token in (5, 6, 7, 1)]
    echoed = body(logprobs={"tokens": tokens, "token_logprobs": [None, -1, -2, -9]})
    assert parse_prompt_logprobs(echoed, [5, 6, 7]) == [-1.0, -2.0]


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (body(prompt_token_ids=[5, 6, 8], prompt_logprobs=entries(5, 6, 8)), "prompt_changed"),
        (body(prompt_logprobs=entries(5, 6, 8)), "prompt_changed"),
        (body(prompt_logprobs=entries(5, 6)), "prompt_changed"),
        (
            body(
                logprobs={"tokens": [f"{ID_PREFIX}{i}" for i in (5, 6, 8)], "token_logprobs": [None, -1, -1]}
            ),
            "prompt_changed",
        ),
        (body(text="x"), "no_prompt_logprobs"),
        (body(prompt_logprobs=[None, {"6": {"logprob": None}}, {"7": {"logprob": -1}}]), "schema"),
        (b'{"choices": [', "not_json"),
    ],
)
def test_log_probs_of_other_tokens_than_those_sent_are_refused(content: bytes, cause: str) -> None:
    with pytest.raises(RolloutError) as caught:
        parse_prompt_logprobs(content, [5, 6, 7])
    assert caught.value.cause == cause
