"""Options that several commands of the evaluation take, each with its help in one place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from eval.template_options import OPTION, parse_template_options

LOCAL = "local"  # the endpoint that is started here

Api = Annotated[
    str,
    typer.Option(
        help="`completions` sends token ids, `chat` sends messages; `auto` takes the first where the endpoint does."
    ),
]
ApiKeyEnv = Annotated[str, typer.Option(help="Environment variable with the API key.")]
Deadline = Annotated[float, typer.Option(help="Seconds per request, retries included.")]
Retries = Annotated[int, typer.Option(min=0, help="Further attempts after 429, 5xx or a lost connection.")]
TemplateOptions = Annotated[
    list[str] | None,
    typer.Option(
        OPTION,
        metavar="NAME=VALUE",
        help="Option of the model's chat template, as it was trained with: enable_thinking=false (Qwen3); repeatable.",
    ),
]
Temperature = Annotated[float, typer.Option(min=0.0, help="0 is greedy.")]
Tokenizer = Annotated[
    str | None, typer.Option(help="The model's tokenizer, a folder or a hub name; default: --model.")
]


def model_folders(model: str, tokenizer: str | None) -> list[Path]:
    """Where the files of the model may lie, its agent.json among them."""
    return [Path(each) for each in (model, tokenizer) if each]


@dataclass(frozen=True)
class RunOptions:
    """What every evaluation of an agent over held-out questions can be told, whatever the agent."""

    model: Annotated[
        str,
        typer.Option(
            help="Model folder (with --endpoint local), or the name under which the endpoint serves it."
        ),
    ]
    data: Annotated[
        Path,
        typer.Option(help="validation.parquet of `mempo data` or `mempo world`, or JSON lines."),
    ]
    out: Annotated[
        Path, typer.Option(help="Folder for samples and summary; the same command continues in it.")
    ]
    endpoint: Annotated[
        str,
        typer.Option(
            help="`local` starts vLLM on the model folder; otherwise the URL of an OpenAI-style API."
        ),
    ] = LOCAL
    api: Api = "auto"
    questions: Annotated[
        int | None, typer.Option(min=1, help="How many questions, drawn by --seed; default all.")
    ] = None
    seed: Annotated[
        int, typer.Option(help="Draws the questions, and seeds requests if --temperature > 0.")
    ] = 0
    temperature: Temperature = 0.0
    tokenizer: Tokenizer = None
    chat_template_option: TemplateOptions = None
    concurrency: Annotated[int, typer.Option(min=1, help="Questions in flight.")] = 32
    deadline: Deadline = 600.0
    retries: Retries = 6
    api_key_env: ApiKeyEnv = "OPENAI_API_KEY"
    device: Annotated[str, typer.Option(help="For --endpoint local: auto, cpu or cuda.")] = "auto"
    tensor_parallel: Annotated[int, typer.Option(min=1, help="For --endpoint local: GPUs per model.")] = 1
    retry_failed: Annotated[
        bool,
        typer.Option(
            "--retry-failed", help="Ask the questions again whose samples failed in an earlier start."
        ),
    ] = False

    @property
    def local(self) -> bool:
        return self.endpoint == LOCAL

    @property
    def template(self) -> dict[str, Any]:
        """The options of the chat template that were given, by name; raises EvalError if one is not NAME=VALUE."""
        return parse_template_options(self.chat_template_option or ())

    @property
    def folders(self) -> list[Path]:
        """`model_folders` of these options."""
        return model_folders(self.model, self.tokenizer)
