"""Generated texts: the right answers can be read off the text, stand where they are said to, and the seed gives the bytes."""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from mempo.answers import normalize
from mempo.reward import outcome_reward
from tests.mempo.support import small_tokens
from tests.mempo.test_verifiers import said
from tools.data.cli import app
from tools.data.common_words import COMMON, CommonWords
from tools.data.frequent_words import FREQUENT, FrequentWords
from tools.data.generated_set import GeneratedSet
from tools.data.generated_text import GeneratedText, TextMaker
from tools.data.made_up_words import VARIABLE, WORD, made_up_words
from tools.data.manifest import changed_outputs, write_manifest
from tools.data.needles import KINDS, Needles
from tools.data.records import DataError
from tools.data.schema import QuestionRow, read_rows
from tools.data.text_size import TextSize
from tools.data.variable_tracking import VariableTracking

COMMANDS = {
    "needles": ["--kind", "multi_value", "--needles", "3"],
    "variable-tracking": ["--chains", "2", "--hops", "3"],
    "common-words": ["--repeats", "6", "--other-repeats", "2"],
    "frequent-words": ["--exponent", "1.8"],
}
every_command = pytest.mark.parametrize("command", COMMANDS)
seeds = st.integers(0, 2**32)


def made(maker: TextMaker, characters: int, seed: int) -> GeneratedText:
    text = next(GeneratedSet(maker, TextSize(characters), 1, seed).texts())
    assert len(text.text) <= characters
    return text


def run(command: str, out: Path, *more: str, size: int = 3000) -> list[QuestionRow]:
    words = [
        command,
        *COMMANDS[command],
        "--questions",
        "3",
        "--characters",
        str(size),
        "--out",
        str(out),
        *more,
    ]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return read_rows(out / "validation.parquet")


@given(
    kind=st.sampled_from(list(KINDS)),
    needles=st.integers(1, 6),
    characters=st.integers(1000, 6000),
    seed=seeds,
)
def test_needles_stand_apart_in_their_text_and_answers_in_its_order(
    kind: str, needles: int, characters: int, seed: int
) -> None:
    maker = Needles.of(kind, None if kind == "single" else needles)
    text = made(maker, characters, seed)
    found = re.findall(r"special magic numbers for (\w+) is: (\d{7})\.", text.text)
    assert len(found) == maker.needles == (1 if kind == "single" else needles)
    assert not re.search(r"is: \d{7}\. One of", text.text)
    (key,) = {key for key, _ in found if f" for {key} in the text" in text.question}
    assert text.answers == [value for at, value in found if at == key]
    assert len({at for at, _ in found}) == (1 if kind == "multi_value" else maker.needles)
    assert not any(value in text.question for _, value in found)
    assert characters - len(text.text) <= len(" There and back again.")


def test_a_kind_has_its_own_number_of_needles_and_a_single_one_fits_a_short_text(tmp_path: Path) -> None:
    for kind, number in KINDS.items():
        out = tmp_path / kind
        words = ["needles", "--kind", kind, "--characters", str(100 * number), "--questions", "2"]
        result = CliRunner().invoke(app, [*words, "--out", str(out)])
        assert result.exit_code == 0, result.output
        assert json.loads((out / "manifest.json").read_text())["settings"]["needles"] == number
        for row in read_rows(out / "validation.parquet"):
            assert row.task.document.count("special magic numbers") == number


@given(chains=st.integers(1, 4), hops=st.integers(1, 5), characters=st.integers(1500, 6000), seed=seeds)
def test_the_assignments_give_the_variables_that_hold_the_value(
    chains: int, hops: int, characters: int, seed: int
) -> None:
    text = made(VariableTracking(chains, hops), characters, seed)
    held: dict[str, str] = {}
    for variable, source in re.findall(
        r"(\w+) = (\w+)\.", text.text
    ):  # a source stands before what takes its value
        assert variable not in held
        held[variable] = source if source.isdigit() else held[source]
    assert sorted(Counter(held.values()).values()) == [hops + 1] * chains
    (value,) = re.findall(r"\d{5}", text.question)
    assert text.answers == [variable for variable in held if held[variable] == value]
    assert f"Which {hops + 1} variables" in text.question
    assert not any(variable in text.question for variable in held)
    assert characters - len(text.text) <= len(" There and back again.")


def test_assignments_stand_apart_and_anywhere_in_the_text() -> None:
    maker, places = VariableTracking(2, 3), list[float]()
    for seed in range(50):
        text = made(maker, 2000, seed)
        assert not re.search(r" = \w+\. \w+ = ", text.text)
        places += [at / len(text.text) for answer in text.answers for at in maker.places(text.text, answer)]
    assert min(places) < 0.05
    assert max(places) > 0.9
    assert 0.4 < sum(places) / len(places) < 0.6


@given(other=st.integers(1, 3), more=st.integers(1, 5), characters=st.integers(2500, 6000), seed=seeds)
def test_counting_the_list_gives_the_common_words(other: int, more: int, characters: int, seed: int) -> None:
    text = made(CommonWords(other + more, other), characters, seed)
    items = text.text.split()
    assert items[::2] == [f"{number}." for number in range(1, len(items) // 2 + 1)]
    counts = Counter(items[1::2])
    common = counts.most_common(COMMON)
    assert text.answers == sorted(word for word, _ in common)
    assert {count for _, count in common} == {other + more}
    assert {count for word, count in counts.items() if word not in text.answers} == {other}
    assert len(counts) > 2 * COMMON
    assert characters - len(text.text) < (other + 1) * len(" 1000. bolafob")


@given(exponent=st.floats(1.2, 3), characters=st.integers(3000, 9000), seed=seeds)
def test_counting_the_text_gives_the_frequent_words(exponent: float, characters: int, seed: int) -> None:
    text = made(FrequentWords(exponent), characters, seed)
    (first, *_), *_ = ranked = Counter(text.text.split()).most_common()
    numbers = [number for _, number in ranked]
    assert text.answers == [word for word, _ in ranked[:FREQUENT]]
    assert first == text.answers[0]
    assert len(set(numbers[: FREQUENT + 1])) == FREQUENT + 1
    for rank, number in enumerate(numbers, 1):
        assert number <= numbers[0] / rank**exponent < number + 1
    assert numbers[0] / (len(numbers) + 1) ** exponent < 1


@given(exponent=st.floats(1.01, 5))
def test_the_shortest_text_orders_the_frequent_words_already(exponent: float) -> None:
    maker = FrequentWords(exponent)
    for parts in range(maker.least, maker.least + 30):
        numbers = [int(parts / rank**exponent) for rank in range(1, FREQUENT + 2)]
        assert len(set(numbers)) == FREQUENT + 1
        assert numbers[FREQUENT - 1] > 0


@every_command
def test_the_same_seed_gives_the_same_bytes_and_another_one_others(command: str, tmp_path: Path) -> None:
    rows = run(command, tmp_path / "a")
    run(command, tmp_path / "b")
    other = run(command, tmp_path / "c", "--seed", "1")
    names = {path.name for path in (tmp_path / "a").iterdir()}
    assert names == {"validation.parquet", "places.jsonl", "manifest.json"}
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert changed_outputs(tmp_path / "a") == []
    assert not {row.task.document for row in rows} & {row.task.document for row in other}
    assert len({row.task.document for row in rows}) == 3


@every_command
def test_more_questions_or_a_longer_text_ask_the_same(command: str, tmp_path: Path) -> None:
    rows = run(command, tmp_path / "a")
    assert run(command, tmp_path / "b", "--questions", "5")[:3] == rows
    longer = run(command, tmp_path / "c", size=9000)
    for row, long in zip(rows, longer, strict=True):
        assert (row.task.id, row.task.question) == (long.task.id, long.task.question)
        assert row.reference == long.reference
        assert len(row.task.document) <= 3000 < 8900 < len(long.task.document) <= 9000


@every_command
def test_rows_have_an_objective_per_answer_and_places_are_recorded(command: str, tmp_path: Path) -> None:
    rows = run(command, tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "places.jsonl").read_text().splitlines()]
    for row, line in zip(rows, lines, strict=True):
        text, answers = row.task.document, [aliases[0] for aliases in row.reference.answers]
        assert row.task.objectives == len(answers) > 1
        assert len(set(map(normalize, answers))) == len(answers)
        assert line["id"] == row.task.id
        assert line["characters"] == len(text)
        assert line["sha256"] == hashlib.sha256(text.encode()).hexdigest()
        assert list(line["places"]) == answers
        for answer, places in line["places"].items():
            if command == "needles":
                assert [text[at:].startswith(f"{answer}.") for at in places] == [True]
            elif command == "variable-tracking":
                assert [text[at:].startswith(f"{answer} = ") for at in places] == [True]
            else:
                assert {text[at : at + len(answer)] for at in places} == {answer}
                assert len(set(places)) == text.split().count(answer)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    name = "needle_multi_value" if command == "needles" else command.replace("-", "_")
    assert manifest["dataset"] == rows[0].data_source == name
    assert manifest["counts"] == {"rows": {"validation": 3}}
    assert manifest["settings"]["characters"] == 3000
    options = {
        name.strip("-").replace("-", "_"): value
        for name, value in zip(*[iter(COMMANDS[command])] * 2, strict=True)
    }
    assert {name: str(manifest["settings"][name]) for name in options} == options


@every_command
def test_a_limit_in_tokens_is_kept_and_used(command: str, tmp_path: Path) -> None:
    small_tokens().tokenizer.save_pretrained(tmp_path / "tokenizer")
    words = [command, *COMMANDS[command], "--tokens", "1500", "--tokenizer", str(tmp_path / "tokenizer")]
    result = CliRunner().invoke(app, [*words, "--questions", "2", "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in (tmp_path / "out" / "places.jsonl").read_text().splitlines()]
    for row, line in zip(read_rows(tmp_path / "out" / "validation.parquet"), lines, strict=True):
        assert line["tokens"] == len(small_tokens().encode_inert(row.task.document))
        assert 1440 < line["tokens"] <= 1500
    assert (
        json.loads((tmp_path / "out" / "manifest.json").read_text())["settings"]["tokenizer"] == "tokenizer"
    )


def test_answers_count_by_position_for_the_strict_verifiers_and_anywhere_for_the_lenient_one() -> None:
    maker = GeneratedSet(VariableTracking(1, 2), TextSize(500), 1)
    row = maker.row(0, next(maker.texts()))
    first, second, third = (aliases[0] for aliases in row.reference.answers)
    for answer, strict, lenient in (
        (f"{first}; {second}; {third}", 3, 3),
        (f"{third}; {second}; {first}", 1, 3),
        (f"{second}; {third}", 0, 2),
        (f"{first}; {first}; {first}", 1, 1),
    ):
        trajectory = said(f"\\boxed{{{answer}}}", objectives=3)
        for verifier, points in (("boxed_exact", strict), ("boxed_em", strict), ("lenient", lenient)):
            assert outcome_reward(trajectory, row.reference, verifier=verifier).reward == points


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            "variable-tracking --characters 100",
            r"the shortest text has \d+ characters, --characters is 100: .*--hops",
        ),
        ("common-words --characters 1000", r"the shortest text has \d+ characters, .* lower --repeats"),
        ("frequent-words --characters 100", r"the shortest text has \d+ characters, .* --exponent near 2"),
        (
            "variable-tracking --chains 1001 --characters 9000",
            "chains is 1001: write a number from 1 to 1000",
        ),
        ("variable-tracking --hops 1001 --characters 9000", "hops is 1001: write a number from 1 to 1000"),
        (
            "common-words --repeats 3 --characters 9000",
            "--other-repeats must be at least 1 and below --repeats",
        ),
        ("frequent-words --exponent 1 --characters 9000", "exponent is 1.0: write a number above 1"),
        ("frequent-words --exponent nan --characters 9000", "exponent is nan: write a number above 1"),
        ("needles --characters 60", r"the shortest text has \d+ characters, --characters is 60: raise it$"),
        ("needles --kind multi_key --characters 100", "raise it, or lower --needles"),
        (
            "needles --needles 2 --characters 900",
            "needles is 2, and the kind single hides one: leave --needles out",
        ),
        (
            "needles --kind multi_key --needles 99 --characters 9000",
            r"needles is 99: write a number from 1 to \d+",
        ),
        (
            "needles --kind two --characters 900",
            "kind 'two' is unknown; known are single, multi_key, multi_value",
        ),
        ("common-words", "give exactly one of --characters and --tokens"),
        ("common-words --tokens 9000 --tokenizer ./none", "--tokenizer ./none: cannot be loaded"),
    ],
)
def test_settings_that_no_text_can_meet_are_named(words: str, told: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [*words.split(), "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert re.search(told, result.output.strip()), result.output
    assert not (tmp_path / "out" / "manifest.json").exists()


@every_command
@pytest.mark.parametrize("size", [["--characters", "20"], ["--tokens", "900", "--tokenizer", "./none"]])
def test_an_error_leaves_an_earlier_data_folder_as_it_was(
    command: str, size: list[str], tmp_path: Path
) -> None:
    run(command, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(before) == 3
    result = CliRunner().invoke(app, [command, *COMMANDS[command], *size, "--out", str(tmp_path)])
    assert result.exit_code == 1
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@every_command
def test_no_file_of_another_data_set_is_left_beside_the_manifest(command: str, tmp_path: Path) -> None:
    earlier = ["train.parquet", "eval_50.jsonl", "places.jsonl"]
    for name in earlier:
        (tmp_path / name).write_text("of long-context")
    write_manifest(tmp_path, [], [tmp_path / name for name in earlier], {})
    run(command, tmp_path)
    listed = {entry["name"] for entry in json.loads((tmp_path / "manifest.json").read_text())["outputs"]}
    assert {path.name for path in tmp_path.iterdir()} == {*listed, "manifest.json"}
    assert listed == {"validation.parquet", "places.jsonl"}


@given(seed=seeds, few=st.integers(0, 50), more=st.integers(0, 50))
def test_made_up_words_differ_and_survive_the_scorer(seed: int, few: int, more: int) -> None:
    for shape in (WORD, VARIABLE):
        words = made_up_words(few + more, shape, random.Random(seed))
        assert len(set(words)) == few + more
        assert [normalize(word) for word in words] == [word.lower() for word in words]
        assert made_up_words(few, shape, random.Random(seed)) == words[:few]


def test_more_words_than_there_are_is_an_error() -> None:
    assert sorted(made_up_words(2, ["ab", "c"], random.Random(0))) == ["ac", "bc"]
    with pytest.raises(DataError, match="3 different words are needed and there are 2"):
        made_up_words(3, ["ab", "c"], random.Random(0))
