"""Reading over an endpoint: `mempo read`, and the evaluation of agents that read, with every verifier by its name."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eval.cli import app as eval_app
from eval.errors import EvalError
from eval.read_cli import app as read_app
from eval.reading_settings import SETTINGS, reading_settings
from eval.text_file import read_text
from mempo.agents.factory import build_agent
from mempo.task import Reference, Task
from tests.eval.support import FakeEndpoint, serving
from tests.mempo.support import small_tokens
from tools.data.schema import QuestionRow, write_rows

runner = CliRunner(env={"COLUMNS": "160", "TERM": "dumb", "NO_COLOR": "1"})
FACT = "The key is 42."


class Reader(FakeEndpoint):
    """Remembers the one fact when it comes by, and answers with it; `boxed` says in which form."""

    boxed = "\\boxed{42}"

    def said(self, text: str) -> str:
        if "Updated memory" in text:
            memory, section = text.rpartition("<memory>")[2].split("<section>")
            return FACT if FACT in memory or FACT in section else "Nothing."
        return self.boxed if FACT in text else "I do not know."


def ask(fake: FakeEndpoint, folder: Path, file: Path, *more: str) -> tuple[int, str]:
    small_tokens().tokenizer.save_pretrained(folder / "tokenizer")
    words = [str(file), "What is the key?", "--model", "fake", "--tokenizer", str(folder / "tokenizer")]
    words += ["--endpoint", fake.url, "--chunk", "60", "--memory", "40", "--answer", "40", *more]
    result = runner.invoke(read_app, words)
    return result.exit_code, re.sub(r"\x1b\[[0-9;]*m", "", result.output)


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        (401, r"error: status_401: .*as told.* \(put a valid key"),
        (400, r"error: status_400: .*as told.* takes no such request"),
        (
            b'{"choices": [{"message": {"content": "", "tool_calls": [{}]}, "finish_reason": "stop"}]}',
            "error: tool_calls: ",
        ),
    ],
)
def test_read_fails_with_the_servers_own_words_and_the_remedy(
    trouble: int | bytes, told: str, tmp_path: Path
) -> None:
    (tmp_path / "book.txt").write_text("The grass is green.")
    with serving(Reader()) as fake:
        fake.trouble = lambda number, prompt: trouble
        code, text = ask(fake, tmp_path, tmp_path / "book.txt", "--api", "chat")
    assert code == 1
    assert re.search(told, text), text


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_read_shows_the_memory_as_it_changes_and_the_answer(api: str, tmp_path: Path) -> None:
    book = tmp_path / "book.txt"
    book.write_text("The grass is green. " * 12 + FACT + " The sky is blue." * 12)
    with serving(Reader()) as fake:
        code, text = ask(fake, tmp_path, book, "--api", api)
    assert code == 0, text
    chunks = int(re.search(r"(\d+) chunks of at most 60 tokens", text)[1])  # type: ignore[index]
    lines = [line for line in text.splitlines() if re.match(r"\d+/", line)]
    assert [line.partition(" ")[0] for line in lines] == [f"{n}/{chunks}" for n in range(1, chunks + 1)]
    assert [line.partition(" ")[2] for line in lines if "unchanged" not in line] == ["Nothing.", FACT]
    assert text.rstrip().endswith("answer 42")
    assert len(fake.requests) == chunks + 1


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_an_empty_memory_overwrites_and_the_reading_goes_on(api: str, tmp_path: Path) -> None:
    class Forgetful(Reader):
        def said(self, text: str) -> str:
            return "" if "Updated memory" in text else super().said(text)

    book = tmp_path / "book.txt"
    book.write_text(FACT + " The grass is green." * 12)
    with serving(Forgetful()) as fake:
        code, text = ask(fake, tmp_path, book, "--api", api)
    assert code == 0, text
    told = [line.partition(" ")[2] for line in text.splitlines() if re.match(r"\d+/", line)]
    assert told == ["(empty)", *["(unchanged)"] * (len(told) - 1)]
    assert len(fake.requests) == len(told) + 1 > 2
    shown = [
        request["messages"][-1]["content"] if api == "chat" else small_tokens().decode(request["prompt"])
        for request in fake.requests
    ]
    assert "No previous memory" in shown[0]
    assert all("<memory>\n\n</memory>" in prompt for prompt in shown[1:])
    assert "I do not know." in text.splitlines()[-2]


@pytest.mark.parametrize("words", [39, 40, 300])
def test_a_chat_reply_that_is_longer_in_our_tokens_is_cut_and_the_reading_goes_on(
    words: int, tmp_path: Path
) -> None:
    """A hosted model keeps to its own count of tokens; the cap of a memory is 40 of ours."""
    tokens = small_tokens()
    memory = tokens.decode(tokens.encode_inert("a b " * 200)[:words])

    class Wordy(Reader):
        def said(self, text: str) -> str:
            return memory if "Updated memory" in text else self.boxed

    book = tmp_path / "book.txt"
    book.write_text("The grass is green. " * 12)
    with serving(Wordy()) as fake:
        code, text = ask(fake, tmp_path, book, "--api", "chat")
    assert code == 0, text
    assert text.rstrip().endswith("answer 42")
    kept = tokens.decode(tokens.encode_inert(memory)[:40])
    assert len(fake.requests) > 2
    for request in fake.requests[1:]:
        assert f"<memory>\n{kept}\n</memory>" in request["messages"][-1]["content"]


def test_read_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with serving(Reader()) as fake:
        code, text = ask(fake, tmp_path, tmp_path / "none.txt")
        assert (code, "none.txt: cannot be read" in text) == (1, True)
        (tmp_path / "blank.txt").write_text(" \n")
        assert "holds no text" in ask(fake, tmp_path, tmp_path / "blank.txt")[1]
        (tmp_path / "odd.txt").write_bytes(b"caf\xe9")
        assert "neither UTF-8 text (byte 3)" in ask(fake, tmp_path, tmp_path / "odd.txt")[1]
    result = runner.invoke(read_app, ["x", "y", "--model", "m"])
    assert "give --endpoint, or set OPENAI_BASE_URL" in result.output


def questions(path: Path, lengths: list[int]) -> Path:
    rows = [
        QuestionRow(
            Task(f"q{n}", "What is the key?", document="The grass is green. " * length + FACT),
            Reference([["42"]]),
            "ruler_hqa_50",
            "validation",
            n,
        )
        for n, length in enumerate(lengths)
    ]
    write_rows(path, rows)
    return path


@pytest.mark.parametrize(
    ("boxed", "exact", "em", "lenient"),
    [("\\boxed{42}", 1, 1, 1), ("\\boxed{42.}", 0, 1, 1), ("It is 42.", 0, 0, 1)],
)
def test_an_evaluation_reports_every_verifier_by_its_name(
    boxed: str, exact: int, em: int, lenient: int, tmp_path: Path
) -> None:
    small_tokens().tokenizer.save_pretrained(tmp_path / "tokenizer")
    with serving(Reader()) as fake:
        fake.boxed = boxed  # type: ignore[attr-defined]
        words = [
            "reading",
            "--model",
            "fake",
            "--tokenizer",
            str(tmp_path / "tokenizer"),
            "--endpoint",
            fake.url,
        ]
        words += [
            "--data",
            str(questions(tmp_path / "v.parquet", [3, 8, 4000])),
            "--out",
            str(tmp_path / "out"),
        ]
        result = runner.invoke(eval_app, [*words, "--setting", "memagent_short"])
    assert result.exit_code == 0, result.output
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    # The longest has more chunks than the setting allows: it failed, and stays in the denominator.
    assert summary["failures"] == {"document_too_long": 1}
    expected = [share * 2 / 3 for share in (exact, em, lenient)]
    assert [summary[name] for name in ("boxed_exact", "boxed_em", "lenient")] == pytest.approx(expected)
    told = " ".join(result.output.split())
    assert f"boxed_exact {expected[0]:.3f}, boxed_em {expected[1]:.3f}, lenient {expected[2]:.3f}" in told
    missing = 2 if boxed.startswith("It") else 0
    assert f"answers without a box: {missing} of 3" in told


def test_a_record_without_a_document_is_failed_and_no_answer_by_heart(tmp_path: Path) -> None:
    record = {"id": "a", "question": "Q?; R?", "answers": [["42"], ["7"]]}
    other = {**record, "id": "b", "document": "Grass is green."}
    (tmp_path / "q.jsonl").write_text(json.dumps(record) + "\n" + json.dumps(other) + "\n")
    small_tokens().tokenizer.save_pretrained(tmp_path / "tokenizer")
    words = ["reading", "--setting", "full_context", "--model", "fake", "--max-context-tokens", "4000"]
    words += ["--tokenizer", str(tmp_path / "tokenizer"), "--data", str(tmp_path / "q.jsonl")]
    with serving(Reader()) as fake:
        result = runner.invoke(eval_app, [*words, "--endpoint", fake.url, "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["failures"] == {"no_document": 1}
    assert json.loads((tmp_path / "out" / "settings.json").read_text())["version"] == 3  # several objectives
    told = " ".join(result.output.split())
    assert "right answers: boxed_exact 0.000, boxed_em 0.000, lenient 0.000" in told
    assert "answers without a box: 1 of 2" in told


def test_every_setting_builds_its_agent_and_an_unknown_one_is_named() -> None:
    for name in SETTINGS:
        settings = reading_settings(name)
        settings["max_context_tokens"] = settings["max_context_tokens"] or 4000
        assert build_agent(settings, small_tokens(), None)
    with pytest.raises(EvalError, match="memagent_long"):
        reading_settings("huge")


def pdf(text: str) -> bytes:
    """A PDF of one page with one line of text."""
    stream = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    content, places = bytearray(b"%PDF-1.4\n"), []
    for number, each in enumerate(objects, 1):
        places.append(len(content))
        content += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    start = len(content)
    content += b"xref\n0 6\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % place for place in places)
    return bytes(content + b"trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % start)


def test_a_pdf_is_read_as_its_text(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf(FACT))
    assert read_text(tmp_path / "a.pdf").strip() == FACT
    (tmp_path / "b.pdf").write_bytes(b"%PDF-1.4\nnothing")
    with pytest.raises(EvalError, match="not a readable PDF"):
        read_text(tmp_path / "b.pdf")


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"]
)
def test_a_text_is_read_in_the_encoding_that_its_first_bytes_announce(encoding: str, tmp_path: Path) -> None:
    mark = "\ufeff" if encoding[4:6] in ("16", "32") else ""
    (tmp_path / "a.txt").write_bytes((mark + FACT + " Ω").encode(encoding))
    assert read_text(tmp_path / "a.txt") == FACT + " Ω"


def test_a_text_that_is_not_what_its_first_bytes_announce_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xff\xfea")
    with pytest.raises(EvalError, match="a.txt: begins as UTF-16 text, but is none from byte 2 on"):
        read_text(tmp_path / "a.txt")
