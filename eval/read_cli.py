"""`mempo read`: one question over one text of any length, with any OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from eval.console import fail
from eval.endpoint import EndpointSettings
from eval.errors import EvalError
from eval.options import Api, ApiKeyEnv, Deadline, Temperature, TemplateOptions, Tokenizer, model_folders
from eval.refusals import told_failure
from eval.template_options import check_template_options, parse_template_options
from mempo.agents.base import Generation, LanguageModel, RolloutError
from mempo.outside_text import well_formed
from mempo.tokens import ChatTokens

app = typer.Typer(add_completion=False)

URL_VARIABLE = "OPENAI_BASE_URL"


class Watched:
    """A language model whose turns are shown as they come: `shown(turn, text)`."""

    def __init__(self, model: LanguageModel, tokens: ChatTokens, shown: Callable[[int, str], None]) -> None:
        self._model, self._tokens, self._shown = model, tokens, shown

    async def generate(self, prompt_ids: list[int], *, max_tokens: int, turn: int) -> Generation:
        """One turn of the model."""
        made = await self._model.generate(prompt_ids, max_tokens=max_tokens, turn=turn)
        said = [token for token in made.token_ids if token not in self._tokens.stop_token_ids]
        self._shown(turn, self._tokens.decode(said))
        return made


@app.command()
def read(
    file: Annotated[
        Path, typer.Argument(help="Text (UTF-8; UTF-16 or UTF-32 with a byte order mark) or PDF.")
    ],
    question: Annotated[str, typer.Argument(help="What to find out.")],
    model: Annotated[str, typer.Option(help="Name under which the endpoint serves the model.")],
    endpoint: Annotated[
        str | None, typer.Option(help=f"URL of an OpenAI-style API; default: ${URL_VARIABLE}.")
    ] = None,
    tokenizer: Tokenizer = None,
    chat_template_option: TemplateOptions = None,
    api: Api = "auto",
    chunk: Annotated[int, typer.Option(min=4, help="Tokens of the text per request.")] = 5000,
    memory: Annotated[int, typer.Option(min=1, help="Tokens of the memory.")] = 1024,
    answer: Annotated[int, typer.Option(min=1, help="Tokens of the last reply.")] = 1024,
    prompt: Annotated[str, typer.Option(help="published, or brief for tiny models.")] = "published",
    temperature: Temperature = 0.0,
    deadline: Deadline = 600.0,
    api_key_env: ApiKeyEnv = "OPENAI_API_KEY",
) -> None:
    """Reads a text of any length piece by piece, shows the memory as it changes, and answers.

    Example: mempo read --model Qwen2.5-7B-Instruct --endpoint http://127.0.0.1:8000/v1 --tokenizer MODEL_FOLDER
    book.txt "Who is the narrator?"
    """
    from eval.agent_file import choose_template_options
    from eval.model_files import load_tokenizer
    from eval.text_file import read_text

    console = Console()
    url = endpoint or os.environ.get(URL_VARIABLE)
    try:
        if not url:
            raise EvalError(f"no endpoint: give --endpoint, or set {URL_VARIABLE}")
        given = parse_template_options(chat_template_option or ())
        loaded = load_tokenizer(tokenizer or model)
        check_template_options(loaded, given)
        # As in `mempo eval reading`: a release brings its options along, and what is given stands over them.
        template = choose_template_options(given, model_folders(model, tokenizer), override=True)
        tokens = ChatTokens(loaded, chat_template_kwargs=template)
        settings = EndpointSettings(
            url, model, temperature=temperature, deadline_s=deadline, api_key_env=api_key_env, connections=1
        )
        sizes = {"chunk": chunk, "memory": memory, "answer": answer}
        asyncio.run(
            _read(read_text(file), well_formed(question), tokens, settings, api, prompt, sizes, console)
        )
    except RolloutError as error:
        fail(EvalError(told_failure((error.cause, str(error)))))
    except (EvalError, ValueError) as error:
        fail(error)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


async def _read(
    text: str,
    question: str,
    tokens: ChatTokens,
    settings: EndpointSettings,
    api: str,
    prompt: str,
    sizes: Mapping[str, int],
    console: Console,
) -> None:
    from eval.api import choose_api, model_maker
    from eval.endpoint import Endpoint
    from mempo.agents.chunk_memory import ChunkMemoryAgent
    from mempo.prompts import reading_prompt
    from mempo.task import Limits, Task

    chunks = len(tokens.chunks(text, sizes["chunk"]))
    asked = len(tokens.encode_inert(question))
    agent = ChunkMemoryAgent(
        tokens,
        prompt=reading_prompt(prompt),
        limits=Limits(
            chunks + 1, sizes["memory"], sizes["chunk"], sys.maxsize
        ),  # the endpoint knows its window
        max_question_tokens=asked,
        max_answer_tokens=sizes["answer"],
        verifier="lenient",
    )
    console.print(
        f"{chunks} chunks of at most {sizes['chunk']} tokens; no request over {agent.longest_request}"
    )
    before: str | None = None

    def shown(turn: int, said: str) -> None:
        nonlocal before
        if turn == chunks:
            return
        changed = (escape(said.strip()) or "(empty)") if said != before else "(unchanged)"
        console.print(f"[bold]{turn + 1}/{chunks}[/bold] {changed}", highlight=False, soft_wrap=True)
        before = said

    async with Endpoint(settings) as endpoint:
        await endpoint.check()
        chosen = await choose_api(endpoint, api, tokens)
        model = model_maker(chosen.ran, endpoint, tokens)("read")
        watched = Watched(model, tokens, shown)
        trajectory = await agent.run(Task("read", question, document=text), watched)
    final = trajectory.turns[-1]
    answer = trajectory.final_answer()
    console.print(f"[bold]answer[/bold] {escape(answer or (final.thought or '').strip())}", soft_wrap=True)
    if answer is None:
        console.print("(the reply holds no box; all of it is shown)", highlight=False)
