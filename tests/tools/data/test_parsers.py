"""Records of the three data sets in all their layouts; every malformed field is named."""

import copy
import json

import pytest

from tools.data.hotpotqa import parse_hotpotqa
from tools.data.musique import parse_musique
from tools.data.question import MalformedRecord, Paragraph, Unusable
from tools.data.twowiki import parse_twowiki, read_aliases

FILM = ["Night (film)", ["Night is a film.", " It was directed by Ann Lee."]]
ANN = ["Ann Lee", ["Ann Lee was born\nin Port Vale."]]
OTHER = ["Rain", ["Rain is water."]]
HOTPOT = {
    "_id": "h1",
    "question": "Where was the director of Night born?",
    "answer": "Port Vale",
    "type": "bridge",
    "supporting_facts": [["Ann Lee", 0], ["Night (film)", 1], ["Ann Lee", 0]],
    "context": [OTHER, ANN, FILM],
}
PAGES = {
    "Ann Lee": Paragraph("Ann Lee", "Ann Lee was born in Port Vale."),
    "Night (film)": Paragraph("Night (film)", "Night is a film. It was directed by Ann Lee."),
    "Rain": Paragraph("Rain", "Rain is water."),
}
MUSIQUE = {
    "id": "3hop1__1_2_3",
    "question": "Which river crosses the town where the director of Night was born?",
    "answer": "Vale",
    "answer_aliases": ["River Vale", "Vale", " "],
    "answerable": True,
    "paragraphs": [
        {"idx": 0, "title": "Port Vale", "paragraph_text": "On the Vale.", "is_supporting": True},
        {"idx": 1, "title": "Rain", "paragraph_text": "Water.", "is_supporting": False},
        {"idx": 2, "title": "Night", "paragraph_text": "By Ann Lee, of Port Vale.", "is_supporting": True},
    ],
    "question_decomposition": [{"paragraph_support_idx": i} for i in (2, 2, 0)],
}


def test_hotpotqa_official_layout_with_hops_in_order():
    question = parse_hotpotqa(HOTPOT)
    assert question.gold == [PAGES["Night (film)"], PAGES["Ann Lee"]]
    assert question.paragraphs == [PAGES["Rain"], PAGES["Ann Lee"], PAGES["Night (film)"]]
    assert (question.id, question.answers, question.hops, question.type) == ("h1", ["Port Vale"], 2, "bridge")


def test_hotpotqa_hub_and_flagged_layouts_read_the_same():
    hub = {
        **HOTPOT,
        "context": {"title": ["Rain", "Ann Lee", "Night (film)"], "sentences": [OTHER[1], ANN[1], FILM[1]]},
        "supporting_facts": {"title": ["Ann Lee", "Night (film)"], "sent_id": [0, 1]},
    }
    flagged = {
        key: value for key, value in HOTPOT.items() if key not in ("_id", "context", "supporting_facts")
    }
    flagged["id"] = "h1"
    flagged["paragraphs"] = [
        {"title": title, "text": page.text, "is_gold": title != "Rain"}
        for title, page in sorted(PAGES.items(), reverse=True)
    ]
    expected = parse_hotpotqa(HOTPOT)
    assert parse_hotpotqa(hub) == expected
    assert parse_hotpotqa(flagged).gold == expected.gold


def as_text(record, *fields):
    return {**record, **{field: json.dumps(record[field]) for field in fields}}


@pytest.mark.parametrize("parse", [parse_hotpotqa, parse_twowiki])
def test_lists_that_a_mirror_stored_as_json_text_are_read(parse):
    stored = as_text(HOTPOT, "context", "supporting_facts")
    assert isinstance(stored["context"], str)
    assert parse(stored) == parse(HOTPOT)
    hub = {
        "title": [page[0] for page in HOTPOT["context"]],
        "sentences": [page[1] for page in HOTPOT["context"]],
    }
    assert parse({**HOTPOT, "context": json.dumps(hub)}) == parse(HOTPOT)
    with pytest.raises(MalformedRecord, match="field context: is a text, but no JSON"):
        parse({**HOTPOT, "context": "[['Ann Lee', ['…']]]"})


def test_musique_stored_as_json_text_reads_the_same():
    stored = as_text(MUSIQUE, "paragraphs", "question_decomposition", "answer_aliases")
    assert parse_musique(stored) == parse_musique(MUSIQUE)


@pytest.mark.parametrize(
    ("parse", "record"), [(parse_hotpotqa, HOTPOT), (parse_twowiki, HOTPOT), (parse_musique, MUSIQUE)]
)
def test_a_question_without_an_id_is_named_by_its_text_alone(parse, record):
    nameless = {key: value for key, value in record.items() if key not in ("id", "_id")}
    question = parse(nameless)
    assert len(question.id) == 16
    assert question.id == parse({**nameless, "answer": "other", "id": None}).id
    assert question.id != parse({**nameless, "question": "And now?"}).id
    assert question.type == record.get("type", "")
    assert parse({**nameless, "id": 7}).id == "7"


def test_comparisons_follow_the_question():
    record = {**HOTPOT, "type": "comparison", "question": "Is Night older than Ann Lee?", "answer": "no"}
    assert [page.title for page in parse_hotpotqa(record).gold] == ["Night (film)", "Ann Lee"]
    record["question"] = "Is Ann Lee older than Night?"
    assert [page.title for page in parse_hotpotqa(record).gold] == ["Ann Lee", "Night (film)"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"question": None}, "question"),
        ({"question": "  "}, "question"),
        ({"answer": 3}, "answer"),
        ({"answer": "?!"}, "answer"),
        ({"answer_aliases": [1]}, "answer_aliases"),
        ({"_id": [7]}, "_id"),
        ({"context": None}, "context"),
        ({"context": "text"}, "context"),
        ({"context": [["Ann Lee"]]}, "context"),
        ({"context": [["Ann Lee", "text"]]}, "context"),
        ({"context": [["Ann Lee", [1]]]}, "context"),
        ({"context": [["", ["text"]]]}, "context"),
        ({"context": {"title": ["a"], "sentences": []}}, "context"),
        ({"context": [OTHER]}, "supporting_facts"),
        ({"context": [["Ann Lee", [""]], FILM]}, "supporting_facts"),
        ({"supporting_facts": []}, "supporting_facts"),
        ({"supporting_facts": ["Ann Lee"]}, "supporting_facts"),
        ({"supporting_facts": [[3, 0]]}, "supporting_facts"),
        ({"paragraphs": ["text"]}, "paragraphs"),
        ({"paragraphs": [{"title": "a", "text": None}]}, "paragraphs"),
        ({"paragraphs": [{"title": "a", "text": "b", "is_gold": 1}]}, "paragraphs"),
    ],
)
def test_malformed_fields_are_named(change, field):
    for parse in (parse_hotpotqa, parse_twowiki):
        with pytest.raises(MalformedRecord, match=f"field {field}: ") as caught:
            parse({**HOTPOT, **change})
        assert caught.value.field == field


@pytest.mark.parametrize("field", ["question", "answer", "context", "supporting_facts"])
def test_missing_fields_are_named(field):
    record = {key: value for key, value in HOTPOT.items() if key != field}
    with pytest.raises(MalformedRecord, match=f"field {field}: is missing"):
        parse_hotpotqa(record)


def test_twowiki_keeps_the_order_of_its_facts_and_adds_aliases(tmp_path):
    table = tmp_path / "id_aliases.json"
    table.write_text('{"Q_id": "Q5", "aliases": ["Vale Port", "Port Vale"], "demonyms": ["Valer"]}\n\n')
    record = {**HOTPOT, "type": "compositional", "answer_id": "Q5"}
    question = parse_twowiki(record, read_aliases(table))
    assert question.answers == ["Port Vale", "Vale Port", "Valer"]
    assert [page.title for page in question.gold] == ["Ann Lee", "Night (film)"]
    assert parse_twowiki({**record, "answer_id": None}, read_aliases(table)).answers == ["Port Vale"]
    table.write_text('{"Q_id": "Q5"}\n')
    with pytest.raises(ValueError, match="line 1"):
        read_aliases(table)


def test_musique_follows_its_decomposition():
    question = parse_musique(MUSIQUE)
    assert [page.title for page in question.gold] == ["Night", "Port Vale"]
    assert question.answers == ["Vale", "River Vale"]
    assert (question.hops, question.type) == (3, "3hop1")


def test_musique_without_decomposition_uses_the_flags():
    question = parse_musique({**MUSIQUE, "question_decomposition": []})
    assert [page.title for page in question.gold] == ["Port Vale", "Night"]


def test_unanswerable_is_unusable_and_a_lost_paragraph_is_malformed():
    with pytest.raises(Unusable, match="unanswerable"):
        parse_musique({**MUSIQUE, "answerable": False})
    record = copy.deepcopy(MUSIQUE)
    record["question_decomposition"][1]["paragraph_support_idx"] = None
    with pytest.raises(MalformedRecord, match="step 1 names no paragraph"):
        parse_musique(record)
    record["question_decomposition"][1]["paragraph_support_idx"] = 9
    with pytest.raises(MalformedRecord, match="names paragraph 9"):
        parse_musique(record)
