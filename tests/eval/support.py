"""A fake endpoint over real sockets, and a handful of questions."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mempo.prompts import format_turn
from tests.local_server import served
from tests.mempo.support import small_tokens

MODEL = "fake"
AGENT = {
    "name": "self_memory",
    "prompt": "brief",
    "context": "window:1",
    "max_turns": 4,
    "max_response_tokens": 400,
    "max_observation_tokens": 60,
    "max_context_tokens": 2000,
    "force_memory_prefix": False,
}
# What a request meets, by its number (from 0) and its prompt: an HTTP status, a raw 200 body, seconds to hang, or None.
Trouble = Callable[[int, str], "int | bytes | float | None"]


class FakeEndpoint:
    """Answers as a model that searches once and then says `Answer <n>`, over token ids and over chat; `/retrieve` too.

    Attributes:
        trouble: what goes wrong with a request.
        right: question numbers that the model answers rightly.
        keeps_memory: whether its turns begin with `<mem>`.
        takes_ids: whether there is a `/v1/completions`.
        continues: whether the chat goes on with a message that an assistant began.
        model: where there is one, log-probs of prompts are its own.
        hangs_s: seconds before any answer.
        refusal: the body of a trouble that is a status; `retry_after`: its header, where there is one.
        requests: the JSON bodies that came; `paths`: where to.
    """

    def __init__(self) -> None:
        self.trouble: Trouble = lambda number, prompt: None
        self.right: set[int] = set(range(0, 100, 2))
        self.keeps_memory = True
        self.takes_ids = True
        self.continues = True
        self.model: Any = None
        self.hangs_s = 0.0
        self.refusal = b'{"error": {"message": "as told"}}'
        self.retry_after: str | None = None
        self.end_ids = [small_tokens().turn_end_id]  # what turns end with over token ids, one after another
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.asked: Counter[int] = Counter()
        self.url = ""
        self._lock = threading.Lock()

    def reply(self, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        with self._lock:
            number = len(self.requests)
            self.requests.append(body)
            self.paths.append(path)
        time.sleep(self.hangs_s)
        chat = path.endswith("/chat/completions")
        if not chat and not self.takes_ids:
            return 404, b'{"detail": "Not Found"}'
        shown = [message["content"] for message in body["messages"]] if chat else []
        trouble = self.trouble(number, "\n".join(shown) if chat else small_tokens().decode(body["prompt"]))
        if isinstance(trouble, float):
            time.sleep(trouble)
        elif isinstance(trouble, int):
            return trouble, self.refusal
        elif trouble is not None:
            return 200, trouble
        if chat:
            return 200, json.dumps(self.message(body)).encode()
        if "prompt_logprobs" in body:
            return 200, json.dumps(self.prompt_logprobs(body)).encode()
        return 200, json.dumps(self.completion(body)).encode()

    def said(self, text: str) -> str:
        """The turn that follows a prompt."""
        named = list(re.finditer(r"Question (\d+)\?", text))
        question, since = (int(named[-1][1]), text[named[-1].end() :]) if named else (-1, text)
        if "<tool_response>" not in since and "Passages:" not in since:
            self.asked[question] += 1
            said = format_turn("nothing yet", "search first", search=f"fact {question}")
        else:
            answer = f"Answer {question}" if question in self.right else "dunno"
            said = format_turn("found", "done", answer=answer)
        return said if self.keeps_memory else said.partition("</mem>\n")[2]

    def completion(self, body: dict[str, Any]) -> dict[str, Any]:
        tokens = small_tokens()
        said = self.said(tokens.decode(body["prompt"]))
        end = self.end_ids[len(self.requests) % len(self.end_ids)]
        ids = [*tokens.encode_own(said), end][: body.get("max_tokens", 400)]
        return {
            "object": "text_completion",
            "model": MODEL,
            "choices": [
                {
                    "index": 0,
                    "text": said,
                    "finish_reason": "stop",
                    "token_ids": ids,
                    "prompt_token_ids": body["prompt"],
                    "logprobs": {
                        "tokens": [f"token_id:{i}" for i in ids],
                        "token_logprobs": [-0.1] * len(ids),
                    },
                }
            ],
            "usage": {"prompt_tokens": len(body["prompt"]), "completion_tokens": len(ids)},
        }

    def message(self, body: dict[str, Any]) -> dict[str, Any]:
        """As a server with a tokenizer of its own: its usage counts words."""
        talk = [message["content"] for message in body["messages"]]
        opened = talk.pop() if body.get("continue_final_message") else ""
        said = self.said("\n".join(talk))
        if opened and self.continues:
            said = opened + said.removeprefix("<mem>\n")
        return {
            "object": "chat.completion",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": said, "tool_calls": []},
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": len(" ".join(talk).split()), "completion_tokens": len(said.split())},
        }

    def prompt_logprobs(self, body: dict[str, Any]) -> dict[str, Any]:
        """vLLM's answer, with the log-probs of `model`."""
        import torch

        ids = body["prompt"]
        with torch.no_grad():
            logprobs = self.model(input_ids=torch.tensor([ids])).logits[0].float().log_softmax(-1)
        told = [
            {str(token): {"logprob": float(logprobs[place, token]), "rank": 1}}
            for place, token in enumerate(ids[1:])
        ]
        choice = {
            "prompt_token_ids": ids,
            "prompt_logprobs": [None, *told],
            "token_ids": [0],
            "logprobs": None,
        }
        return {"choices": [choice]}


@contextmanager
def serving(fake: FakeEndpoint) -> Iterator[FakeEndpoint]:
    """Serves `fake` on a free port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(200, json.dumps({"data": [{"id": MODEL}]}).encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path == "/retrieve":
                page = {"document": {"contents": '"A page"\nIts text.'}, "score": 1.0}
                self._send(200, json.dumps({"result": [[page]]}).encode())
                return
            fake.headers.append(dict(self.headers))
            self._send(*fake.reply(self.path, body))

        def _send(self, status: int, content: bytes) -> None:
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                if status != 200 and fake.retry_after is not None:
                    self.send_header("Retry-After", fake.retry_after)
                self.end_headers()
                self.wfile.write(content)
            except OSError:
                pass  # the client gave up, as it should after its deadline

        def log_message(self, *_: object) -> None:
            pass

    with served(Handler) as url:
        fake.url = url
        yield fake


def write_questions(path: Path, count: int) -> Path:
    """A validation file with the columns of the project."""
    rows = [
        {
            "data_source": "fake",
            "agent_name": "mempo",
            "prompt": [{"role": "user", "content": f"Question {n}?"}],
            "task": {"id": f"q{n}", "question": f"Question {n}?", "objectives": 1},
            "reference": {"answers": [[f"Answer {n}"]], "supporting": ["A page"]},
            "reward_model": {"style": "rule", "ground_truth": json.dumps([[f"Answer {n}"]])},
            "extra_info": {"index": n, "split": "validation", "hops": 1 + n % 2, "type": "bridge"},
        }
        for n in range(count)
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path
