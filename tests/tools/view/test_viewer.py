"""The viewer shows trajectories as text, whatever they hold, and finds its way by keys, filters and address."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from typer.testing import CliRunner

from eval.errors import EvalError
from eval.record import from_training
from eval.run_folder import read_records
from tests.browser import Browser, browsing, needs_browser
from tests.eval.recorded import HOSTILE, PROBE, training_line, write_evaluation, write_training_run
from tests.parsed_page import ParsedPage
from tools.view.cli import app

runner = CliRunner(env={"COLUMNS": "160", "TERM": "dumb", "NO_COLOR": "1"})
LONG = HOSTILE + "x" * 100_000


def write_view(run: Path, out: Path, *more: str) -> ParsedPage:
    result = runner.invoke(app, [str(run), "--out", str(out), *more])
    assert result.exit_code == 0, result.output
    return ParsedPage(out.read_text(encoding="utf-8"))


def data_of(page: ParsedPage) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads(page.raw["script"][0])
    return records


def tokens_of(line: dict[str, Any]) -> list[dict[str, Any]]:
    """Of each turn five or six tokens, the memory's with an advantage of 0.5, the others -0.25."""
    return [
        {
            "text": [f"t{number} " for number in range(len(turn["response_ids"]))],
            "advantage": [
                0.5 if number < turn["memory_span"][1] else -0.25
                for number in range(len(turn["response_ids"]))
            ],
        }
        for turn in line["trajectory"]["turns"]
    ]


def test_every_text_of_an_evaluation_is_in_the_data_and_only_there(tmp_path: Path) -> None:
    write_evaluation(tmp_path / "run", {0, 1}, failed=(2,), text=LONG)
    page = write_view(tmp_path / "run", tmp_path / "view.html")
    assert page.references == []
    assert page.handlers == []
    assert page.comments == []
    assert len(page.raw["script"]) == 2
    assert "alert" not in (tmp_path / "view.html").read_text(encoding="utf-8").replace(
        page.raw["script"][0], ""
    )
    right, failed = data_of(page)[0], data_of(page)[2]
    assert [right["turns"][0][name] for name in ("memory", "thought", "action_text", "observation")] == [
        f"memory 1 {LONG}",
        f"thought {LONG}",
        f"query {LONG}",
        f"page {LONG}",
    ]
    assert (right["right"], right["em"], right["prediction"]) == (True, 1.0, "Answer 0")
    assert failed["turns"] == []
    assert failed["failure"] == f"http_500: as told {LONG}"[: len("http_500: ") + 2000]


def test_memory_scores_of_training_and_of_probes_are_shown(tmp_path: Path) -> None:
    page = write_view(write_training_run(tmp_path / "run", 2), tmp_path / "view.html")
    first, second = (turn["score"] for turn in data_of(page)[1]["turns"])
    assert (first["status"], first["p_memory"], first.get("reward")) == ("first", None, None)
    assert (second["p_memory"], second["p_reference"]) == pytest.approx((0.3, 0.1))
    assert second["reward"] == pytest.approx(0.2)
    assert [record["step"] for record in data_of(page)] == [1, 1, 2, 2]

    write_evaluation(tmp_path / "eval", {0}, probe=PROBE)
    probed = data_of(write_view(tmp_path / "eval", tmp_path / "view.html"))[0]["turns"]
    assert [turn["score"] and turn["score"]["reward"] for turn in probed] == [None, 0.25]


def test_one_step_can_be_viewed_alone(tmp_path: Path) -> None:
    run = write_training_run(tmp_path / "run", 2)
    page = write_view(run / "trajectories" / "step_2.jsonl", tmp_path / "view.html")
    assert [record["id"] for record in data_of(page)] == ["step-2-u1_0", "step-2-u2_0"]


def test_a_limit_draws_evenly(tmp_path: Path) -> None:
    page = write_view(write_training_run(tmp_path / "run", 4), tmp_path / "view.html", "--limit", "4")
    assert [record["step"] for record in data_of(page)] == [1, 2, 3, 4]
    assert "(drawn evenly from 8)" in (tmp_path / "view.html").read_text()


def test_a_reference_other_than_the_history_is_named(tmp_path: Path) -> None:
    line = training_line(1, 1)
    assert from_training(line).reference == "history"
    line["memory"][0]["status"] = "scored"
    assert from_training(line).reference == "previous memory"


def test_tokens_with_one_advantage_become_one_piece() -> None:
    line = training_line(1, 1)
    pieces = from_training({**line, "tokens": tokens_of(line)}).turns[0].pieces
    assert pieces == [("t0 t1 t2 ", 0.5), ("t3 t4 ", -0.25)]


def test_advantages_that_do_not_fit_the_tokens_are_refused(tmp_path: Path) -> None:
    line = training_line(1, 1)
    tokens = tokens_of(line)
    tokens[1]["advantage"].pop()
    run = write_training_run(tmp_path / "run", 1, [{**line, "tokens": tokens}])
    with pytest.raises(EvalError, match=r"step_1.jsonl, line 1: .*6 texts and 5 advantages for 6 written"):
        read_records(run)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "neither the folder of an evaluation"),
        ("{", "line 1: not JSON"),
        ("{}\n", "line 1: the field 'memory' is missing"),
        ("", "holds no trajectory yet"),
    ],
)
def test_what_is_no_run_is_refused(tmp_path: Path, content: str | None, said: str) -> None:
    path = tmp_path / "step_1.jsonl"
    if content is not None:
        path.write_text(content)
    result = runner.invoke(app, [str(path), "--out", str(tmp_path / "v.html")])
    assert result.exit_code == 1
    assert said in re.sub(r"\s+", " ", result.output)
    assert not (tmp_path / "v.html").exists()


def test_a_run_without_trajectories_points_to_its_evaluations(tmp_path: Path) -> None:
    write_evaluation(tmp_path / "run" / "eval" / "before" / "history", {0})
    with pytest.raises(EvalError, match="give one of them, e.g. .*before/history"):
        read_records(tmp_path / "run")


async def test_what_training_writes_can_be_viewed(tmp_path: Path) -> None:
    pytest.importorskip("verl", reason="the trainer's log needs verl")
    from mempo.memory_scores import TurnScore
    from mempo.probe import ANSWER_TAG
    from mempo.reward import outcome_reward
    from mempo.task import Reference
    from tests.mempo.support import ANSWER_TURN, SEARCH_TURN, TASK, ScriptedModel, make_agent, small_tokens
    from verl_patches.records import SessionRecord
    from verl_patches.run_log import RunLog

    tokens, reference = small_tokens(), Reference([["Mira Voss"]])
    rolled = await make_agent(tokens).run(TASK, ScriptedModel(tokens, [SEARCH_TURN, ANSWER_TURN]))
    record = SessionRecord.of("u_0", rolled, reference, ANSWER_TAG, outcome_reward(rolled, reference), 1, {})
    scores = [TurnScore(0, "first"), TurnScore(1, "scored", 0.9, 0.4, 2)]
    RunLog(tmp_path).trajectories(7, [record], {"u_0": scores}, {}, tokens)
    (read,) = read_records(tmp_path)
    assert (read.id, read.step, read.right, read.prediction) == ("step-7-u_0", 7, True, "Mira Voss")
    assert (read.turns[0].memory, read.turns[0].action_text) == ("Nothing yet.", "Silent Harbor")
    assert read.turns[1].score is not None
    assert read.turns[1].score.reward == pytest.approx(0.5)


# ---------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as opened:
        yield opened


def selected(browser: Browser) -> Any:
    return browser.run("document.querySelector('.facts .id').textContent")


def listed(browser: Browser) -> Any:
    return browser.run("document.getElementById('list').children.length")


def choose(browser: Browser, name: str, value: str) -> None:
    browser.run(
        f"(e => {{ e.value = {json.dumps(value)}; e.dispatchEvent(new Event('change')) }})(document.getElementById('{name}'))"
    )


@needs_browser
@pytest.mark.parametrize("width", [390, 1280])
def test_a_hostile_trajectory_stays_text(tmp_path: Path, browser: Browser, width: int) -> None:
    write_evaluation(tmp_path / "run", {0}, failed=(2,), text=LONG)
    write_view(tmp_path / "run", tmp_path / "view.html")
    for name in ("q0", "q2"):
        browser.open(tmp_path / "view.html", name, width=width)
        assert selected(browser) == name
        assert browser.complaints == []
        assert browser.run("document.scripts.length") == 2
        assert (
            browser.run("document.querySelectorAll('img, textarea, iframe, object, link, svg').length") == 0
        )
        assert browser.run("document.documentElement.scrollWidth") <= width
    browser.open(tmp_path / "view.html", "q0", width=width)
    shown = browser.run("document.querySelector('.block.observation .text').textContent")
    assert shown.startswith(
        "page <script>alert(1)</script></script><img src=https://evil.example/x onerror=alert(2)>"
    )
    assert "⟦U+202E⟧gnp.exe" in shown
    assert "⟦U+0000⟧" in shown
    assert shown.endswith("x" * 100_000)


@needs_browser
def test_keys_move_through_the_list(tmp_path: Path, browser: Browser) -> None:
    write_view(write_training_run(tmp_path / "run", 2), tmp_path / "view.html")
    browser.open(tmp_path / "view.html")
    assert selected(browser) == "step-1-u1_0"
    for key, then in (("j", "step-1-u2_0"), ("ArrowRight", "step-2-u1_0"), ("k", "step-1-u2_0"), ("k", "step-1-u1_0"),
                      ("k", "step-1-u1_0")):  # fmt: skip
        browser.press(key)
        assert selected(browser) == then
        assert browser.run("decodeURIComponent(location.hash)") == f"#{then}"
    browser.press("/")
    browser.press("j")  # is typed
    assert browser.run("document.activeElement.value") == "j"
    assert selected(browser) == "step-1-u1_0"
    browser.press("Escape")
    browser.press("?")
    assert browser.run("document.getElementById('help').open") is True
    browser.run("document.querySelector('dialog button').click()")
    assert browser.run("document.getElementById('help').open") is False
    assert browser.complaints == []


@needs_browser
def test_the_list_is_filtered_sorted_and_searched(tmp_path: Path, browser: Browser) -> None:
    lines = [training_line(1, number) for number in (1, 3, 2)]
    lines[2]["stop"], lines[2]["scores"]["em"] = "truncated", 0.0
    write_view(write_training_run(tmp_path / "run", 1, lines), tmp_path / "view.html")
    browser.open(tmp_path / "view.html")
    choose(browser, "order", "reward")
    order = browser.run("[...document.querySelectorAll('#list a')].map(a => a.hash)")
    assert order == ["#step-1-u3_0", "#step-1-u2_0", "#step-1-u1_0"]
    choose(browser, "outcome", "wrong")
    assert (listed(browser), selected(browser)) == (1, "step-1-u2_0")
    choose(browser, "outcome", "")
    choose(browser, "stop", "truncated")
    assert listed(browser) == 1
    choose(browser, "stop", "")
    browser.run("document.getElementById('search').focus()")
    for key in "ON 3":
        browser.press(key)
    browser.run("new Promise(done => setTimeout(done, 400))")
    assert browser.run("document.getElementById('count').value") == "1 of 3"
    assert selected(browser) == "step-1-u3_0"


@needs_browser
def test_an_address_leads_to_its_trajectory(tmp_path: Path, browser: Browser) -> None:
    lines = [{**training_line(1, 1), "session": f"{name}_0"} for name in ("a b/ü%", "<x>\ud800")]
    write_view(write_training_run(tmp_path / "run", 1, lines), tmp_path / "view.html")
    for name in ("step-1-a b/ü%_0", "step-1-<x>\ufffd_0"):
        browser.open(tmp_path / "view.html", quote(name, safe=""))
        assert selected(browser) == name


@needs_browser
def test_advantages_are_coloured_by_token_where_the_file_has_them(tmp_path: Path, browser: Browser) -> None:
    line = training_line(1, 1)
    for tokens, said in (
        (tokens_of(line), "their advantage, from −0.50 to +0.50"),
        (None, "not in this file"),
    ):
        lines = [line if tokens is None else {**line, "tokens": tokens}]
        run = write_training_run(tmp_path / said[:3], 1, lines)
        write_view(run, tmp_path / "view.html")
        browser.open(tmp_path / "view.html")
        assert said in browser.run("document.querySelector('p.legend').textContent")
        coloured = browser.run(
            "[...document.querySelectorAll('article .text.positive, article .text span')]"
            ".map(e => [e.className, e.textContent, getComputedStyle(e).backgroundColor])"
        )
        if tokens is None:
            assert [(name, text.startswith("memory 2")) for name, text, _ in coloured] == [
                ("text positive", True)
            ]
        else:
            assert [(name, text) for name, text, _ in coloured[:2]] == [
                ("positive", "t0 t1 t2 "),
                ("negative", "t3 t4 "),
            ]
            assert coloured[0][2] != coloured[1][2] != "rgba(0, 0, 0, 0)"


@needs_browser
def test_a_narrow_page_shows_the_list_on_demand(tmp_path: Path, browser: Browser) -> None:
    write_view(write_training_run(tmp_path / "run", 2), tmp_path / "view.html")
    browser.open(tmp_path / "view.html", width=390)
    visible = "document.getElementById('picker').offsetHeight > 0"
    assert browser.run(visible) is False
    browser.run("document.getElementById('toggle').click()")
    assert browser.run(visible) is True
    browser.run("document.querySelectorAll('#list a')[2].click()")
    browser.run("new Promise(done => setTimeout(done, 50))")
    assert selected(browser) == "step-2-u1_0"
    assert browser.run(visible) is False
