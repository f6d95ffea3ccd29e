"""Options of the chat template: prompts are rendered with those of training, and the run tells which they were."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM
from typer.testing import CliRunner

from eval.agent_file import choose_template_options, shown_texts
from eval.cli import app as eval_app
from eval.errors import EvalError
from eval.read_cli import app as read_app
from eval.template_options import check_template_options, parse_template_options
from mempo.tokens import ChatTokens
from tests.eval.support import AGENT, FakeEndpoint, serving, write_questions
from tests.mempo.support import CHATML, NO_QWEN, qwen_folder, small_tokens

runner = CliRunner(env={"COLUMNS": "160", "TERM": "dumb", "NO_COLOR": "1"})
NO_THOUGHT = "<think>\n\n</think>\n\n"  # what Qwen3's template opens a turn with, told not to think
OPENING = "{{- '<|im_start|>assistant\\n' }}"
TEMPLATE = CHATML.replace(
    OPENING, OPENING + "{%- if enable_thinking is defined and enable_thinking is false %}"
    "{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}"
)  # fmt: skip
OPTION = ["--chat-template-option", "enable_thinking=false"]
# One command that has the option, against a fake endpoint.
Ask = Callable[[FakeEndpoint, Path, list[str]], Any]


@cache
def tokenizer_files() -> dict[str, bytes]:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as name:
        small_tokens().tokenizer.save_pretrained(name)
        (Path(name) / "chat_template.jinja").write_text(TEMPLATE)
        return {path.name: path.read_bytes() for path in Path(name).iterdir()}


def tokenizer_folder(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in tokenizer_files().items():
        (folder / name).write_bytes(content)
    return folder


def served(fake: FakeEndpoint, folder: Path) -> list[str]:
    words = ["--model", "fake", "--tokenizer", str(tokenizer_folder(folder / "tokenizer"))]
    return [*words, "--endpoint", fake.url]


def run(fake: FakeEndpoint, folder: Path, more: list[str], out: str = "out") -> Any:
    words = ["run", *served(fake, folder), "--data", str(write_questions(folder / "v.parquet", 2))]
    words += ["--search-url", fake.url, "--prompt", "brief", "--max-context-tokens", "4000"]
    return runner.invoke(eval_app, [*words, "--out", str(folder / out), *more])


def reading(fake: FakeEndpoint, folder: Path, more: list[str]) -> Any:
    data = folder / "questions.jsonl"
    data.write_text(json.dumps({"id": "q", "question": "Q?", "answers": ["a"], "document": "Text. "}) + "\n")
    words = ["reading", *served(fake, folder), "--data", str(data), "--setting", "memagent_short"]
    return runner.invoke(eval_app, [*words, "--out", str(folder / "out"), *more])


def read(fake: FakeEndpoint, folder: Path, more: list[str]) -> Any:
    (folder / "book.txt").write_text("Text. ")
    return runner.invoke(read_app, [str(folder / "book.txt"), "Q?", *served(fake, folder), *more])


@pytest.fixture
def fake() -> Iterator[FakeEndpoint]:
    with serving(FakeEndpoint()) as endpoint:
        yield endpoint


@pytest.mark.parametrize("option", [OPTION, []], ids=["given", "not_given"])
@pytest.mark.parametrize("ask", [run, reading, read])
def test_prompts_of_every_command_are_rendered_with_the_option(
    fake: FakeEndpoint, tmp_path: Path, ask: Ask, option: list[str]
) -> None:
    result = ask(fake, tmp_path, ["--api", "completions", *option])
    assert result.exit_code == 0, result.output
    opened = f"<|im_start|>assistant\n{NO_THOUGHT if option else ''}"
    prompts = [small_tokens().decode(request["prompt"]) for request in fake.requests]
    assert len(prompts) >= 2
    assert all(prompt.endswith(opened) for prompt in prompts)


@pytest.mark.parametrize("ask", [run, reading, read])
def test_over_chat_the_option_goes_along_and_nothing_does_without_one(
    fake: FakeEndpoint, tmp_path: Path, ask: Ask
) -> None:
    result = ask(fake, tmp_path, ["--api", "chat", *OPTION])
    assert result.exit_code == 0, result.output
    asked = len(fake.requests)
    assert asked >= 2
    assert all(request["chat_template_kwargs"] == {"enable_thinking": False} for request in fake.requests)
    (tmp_path / "plain").mkdir()
    assert ask(fake, tmp_path / "plain", ["--api", "chat"]).exit_code == 0
    assert len(fake.requests) == 2 * asked
    assert not any("chat_template_kwargs" in request for request in fake.requests[asked:])


def test_over_chat_a_forced_prefix_goes_with_the_option(fake: FakeEndpoint, tmp_path: Path) -> None:
    result = run(fake, tmp_path, ["--api", "chat", "--force-memory-prefix", *OPTION])
    assert result.exit_code == 0, result.output
    continued = [request for request in fake.requests if request.get("continue_final_message")]
    assert len(continued) == len(fake.requests) > 0
    assert all(request["chat_template_kwargs"] == {"enable_thinking": False} for request in continued)
    assert {request["messages"][-1]["content"] for request in continued[1:]} == {"<mem>\n"}


def test_a_run_records_the_option_and_is_not_compared_with_one_that_lacks_it(
    fake: FakeEndpoint, tmp_path: Path
) -> None:
    for out, option in (("thinks", []), ("does_not", OPTION)):
        result = run(fake, tmp_path, option, out)
        assert result.exit_code == 0, result.output
    recorded = [json.loads((tmp_path / out / "settings.json").read_text()) for out in ("thinks", "does_not")]
    assert "chat_template_kwargs" not in recorded[0]  # as in evaluations of earlier versions
    assert recorded[1]["chat_template_kwargs"] == {"enable_thinking": False}
    folders = ["compare", str(tmp_path / "thinks"), str(tmp_path / "does_not")]
    refused = runner.invoke(eval_app, folders)
    assert refused.exit_code == 1
    assert "chat_template_kwargs.enable_thinking: None → False" in refused.output
    assert runner.invoke(eval_app, [*folders, "--subject", "chat_template_kwargs"]).exit_code == 0
    other = run(fake, tmp_path, [], "does_not")
    assert other.exit_code == 1
    assert "was begun with other settings: chat_template_kwargs.enable_thinking" in other.output


def test_the_memories_of_such_a_run_are_probed_in_its_own_prompts(fake: FakeEndpoint, tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = Qwen2Config(vocab_size=len(small_tokens().tokenizer), hidden_size=32, num_hidden_layers=1)
    fake.model = Qwen2ForCausalLM(config).eval()
    assert run(fake, tmp_path, OPTION).exit_code == 0
    fake.requests.clear()
    result = runner.invoke(eval_app, ["probe", str(tmp_path / "out"), *served(fake, tmp_path)])
    assert result.exit_code == 0, result.output
    scored = [small_tokens().decode(request["prompt"]) for request in fake.requests]
    assert scored
    assert all(f"<|im_start|>assistant\n{NO_THOUGHT}<mem>" in prompt for prompt in scored)


def test_a_release_brings_its_option_along_and_another_has_to_be_meant(
    fake: FakeEndpoint, tmp_path: Path
) -> None:
    content = {"version": 1, "agent": AGENT, "search": {"topk": 3}, "texts": shown_texts(AGENT)}
    folder = tokenizer_folder(tmp_path / "tokenizer")
    (folder / "agent.json").write_text(
        json.dumps({**content, "chat_template_kwargs": {"enable_thinking": False}})
    )
    assert choose_template_options({}, [folder], override=False) == {"enable_thinking": False}
    words = ["run", *served(fake, tmp_path), "--data", str(write_questions(tmp_path / "v.parquet", 2))]
    words += ["--search-url", fake.url, "--out", str(tmp_path / "out")]
    assert runner.invoke(eval_app, words).exit_code == 0
    assert reading(fake, tmp_path, ["--out", str(tmp_path / "read")]).exit_code == 0
    for more, opened in (([], NO_THOUGHT), (["--chat-template-option", "enable_thinking=true"], "")):
        fake.requests.clear()
        assert read(fake, tmp_path, ["--api", "completions", *more]).exit_code == 0
        prompts = [small_tokens().decode(request["prompt"]) for request in fake.requests]
        assert len(prompts) == 2
        assert all(prompt.endswith(f"<|im_start|>assistant\n{opened}") for prompt in prompts)
    for out in ("out", "read"):
        settings = json.loads((tmp_path / out / "settings.json").read_text())
        assert settings["chat_template_kwargs"] == {"enable_thinking": False}
    thinking = [*words[:-1], str(tmp_path / "other"), "--chat-template-option", "enable_thinking=true"]
    refused = runner.invoke(eval_app, thinking)
    assert refused.exit_code == 1
    assert "enable_thinking is True, the model's is False" in " ".join(refused.output.split())
    assert runner.invoke(eval_app, [*thinking, "--override-agent"]).exit_code == 0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("false", False),
        ("False", False),
        ("TRUE", True),
        ("3", 3),
        ('["a"]', ["a"]),
        ("low", "low"),
        ("", ""),
    ],
)
def test_a_value_is_json_or_text(text: str, value: Any) -> None:
    assert parse_template_options([f"name={text}", "other=a=b"]) == {"name": value, "other": "a=b"}


@pytest.mark.parametrize("given", ["enable_thinking", "=false", "enable-thinking=false", "a b=1"])
def test_what_is_no_option_is_refused_with_the_form(given: str) -> None:
    with pytest.raises(EvalError, match="write NAME=VALUE, e.g. enable_thinking=false"):
        parse_template_options([given])


@pytest.mark.parametrize("value", ["None", "none", "null"])
def test_no_value_is_refused_and_its_text_can_be_written(value: str) -> None:
    with pytest.raises(EvalError, match=rf"name is {value}, which is no value.*'name=\"{value}\"'"):
        parse_template_options([f"name={value}"])
    assert parse_template_options([f'name="{value}"']) == {"name": value}


@pytest.mark.parametrize(
    ("template", "asks"),
    [
        ("{% if not depth is defined %}{% set depth = 1 %}{% endif %}{{ depth }}", True),
        ("{% for m in messages %}{% generation %}{{ depth }}{% endgeneration %}{% endfor %}", True),
        (
            "{%- for m in messages -%}{%- if m.x -%}{%- continue -%}{%- endif -%}{{ depth }}{%- endfor -%}",
            True,
        ),
        ("{% set depth = 1 %}{{ depth }}", False),
        ("{# depth #}depth{{ 'depth' }}{{ messages[0].depth }}{{ f(depth=1) }}", False),
    ],
)
def test_only_what_a_template_takes_from_outside_is_an_option(template: str, asks: bool) -> None:
    class Tokenizer:
        def get_chat_template(self) -> str:
            return template

        def apply_chat_template(self, conversation: Any, add_generation_prompt: bool) -> None: ...

    if asks:
        check_template_options(Tokenizer(), {"depth": 2})
    else:
        with pytest.raises(EvalError, match="never asks for depth"):
            check_template_options(Tokenizer(), {"depth": 2})


def test_an_option_given_twice_is_refused() -> None:
    with pytest.raises(EvalError, match="enable_thinking is given twice"):
        parse_template_options(["enable_thinking=false", "enable_thinking=true"])


@pytest.mark.parametrize("ask", [run, reading, read])
@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("enable_thinkng=false", "never asks for enable_thinkng"),
        ("if=false", "never asks for if"),
        ("role=x", "never asks for role"),
        ("add_generation_prompt=false", "prompts are put together here"),
        ("enable_thinking=None", "enable_thinking is None, which is no value"),
        ("enable_thinking", "write NAME=VALUE"),
    ],
)
def test_an_option_that_would_change_nothing_is_an_error_before_any_question(
    fake: FakeEndpoint, tmp_path: Path, ask: Ask, option: str, message: str
) -> None:
    result = ask(fake, tmp_path, ["--api", "completions", "--chat-template-option", option])
    assert result.exit_code == 1
    assert message in " ".join(result.output.split())
    assert not fake.requests
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(qwen_folder() is None, reason=NO_QWEN)
def test_qwen3s_own_template_opens_a_turn_without_a_thought() -> None:
    tokenizer = AutoTokenizer.from_pretrained(qwen_folder())
    options = parse_template_options(["enable_thinking=false"])
    check_template_options(tokenizer, options)
    thinks, does_not = ChatTokens(tokenizer), ChatTokens(tokenizer, chat_template_kwargs=options)
    assert does_not.decode(does_not.generation_prompt_ids) == f"<|im_start|>assistant\n{NO_THOUGHT}"
    assert thinks.decode(thinks.generation_prompt_ids) == "<|im_start|>assistant\n"
    message = [{"role": "user", "content": "Who?"}]
    whole = tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False, **options)
    assert does_not.first_prompt(None, "Who?") + does_not.generation_prompt_ids == does_not.encode_own(whole)
