"""Corpora: the layouts of other projects, and every malformed record named by its number."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.search.corpus import Corpus, read_corpus
from tools.search.document import Document
from tools.search.records import CorpusError, json_lines
from tools.search.wire import join_contents, split_contents


def documents(*records):
    return list(Corpus(json_lines(json.dumps(record) for record in records)))


@pytest.mark.parametrize(
    ("record", "title", "text"),
    [
        ({"id": "1", "title": "Dune", "text": "A novel."}, "Dune", "A novel."),
        ({"_id": "1", "title": "Dune", "text": "A novel.", "metadata": {}}, "Dune", "A novel."),
        ({"docid": "1", "text": "A novel."}, "", "A novel."),
        ({"id": 1, "title": None, "text": "A novel."}, "", "A novel."),
        ({"id": "1", "title": float("nan"), "text": "A novel."}, "", "A novel."),
        ({"id": "1", "title": "", "text": "A novel."}, "", "A novel."),
        ({"id": "1", "contents": '"Dune"\nA novel.'}, "Dune", "A novel."),
        ({"id": "1", "contents": "Dune\nA novel."}, "Dune", "A novel."),
        ({"id": "1", "contents": "A text of one line has no title."}, "", "A text of one line has no title."),
        ({"id": "1", "contents": '"Dune"'}, "Dune", ""),
        ({"id": "1", "title": "Dune", "contents": "A novel."}, "Dune", "A novel."),
        ({"id": "1", "title": "Dune", "contents": "One.\nTwo."}, "Dune", "One.\nTwo."),
        ({"id": "1", "title": "Dune", "contents": '"Dune"\nA novel.'}, "Dune", "A novel."),
        ({"id": "1", "title": None, "contents": "One.\nTwo."}, "", "One.\nTwo."),
        (
            {"id": "1", "contents": '"Dune"\nA novel.', "title": "Dune", "text": "A novel."},
            "Dune",
            "A novel.",
        ),
    ],
)
def test_the_layouts_of_other_projects_give_id_title_and_text(record, title, text):
    assert documents(record) == [Document("1", title, text)]


def test_an_id_that_is_null_leaves_the_word_to_another_one_and_a_blank_url_is_none():
    assert documents({"id": None, "_id": "7", "text": "A.", "url": " "}) == [Document("7", "", "A.")]


def test_a_corpus_without_ids_gets_the_numbers_of_its_records_and_mixing_is_malformed():
    assert [document.id for document in documents({"text": "a"}, {"text": "b"})] == ["1", "2"]
    with pytest.raises(CorpusError, match="line 2: an id, and earlier ones have none"):
        documents({"text": "a"}, {"id": "1", "text": "b"})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("id,text", "not JSON (Expecting value at column 1): 'id,text'"),
        ("[1]", "an object with fields is expected, got list"),
        ('{"title": "A", "text": "b"}', "field id is missing; fields found: title, text"),
        ('{"id": true, "title": "A", "text": "b"}', "field id"),
        ('{"docid": 1.5, "text": "b"}', "field docid: a string or an integer is expected, got float"),
        ('{"id": "1", "title": "A"}', "field text (or contents) is missing; fields found: id, title"),
        ('{"id": "1", "title": "A", "text": null}', "field text: a string is expected, got null"),
        ('{"id": "1", "title": 3, "text": "b"}', "field title: a string is expected, got int"),
        ('{"id": "1", "title": "A", "text": 3}', "field text: a string is expected, got int"),
        ('{"id": "1", "contents": null}', "field contents"),
        ('{"id": "1", "title": " ", "text": ""}', "title and text are both blank"),
        ('{"id": "2", "title": "B", "text": "c", "url": 1}', "field url"),
        ('{"id": "0", "title": "B", "text": "c"}', "id '0' was used in line 1"),
    ],
)
def test_malformed_lines_are_reported_by_number(line, message):
    with pytest.raises(CorpusError) as caught:
        list(Corpus(json_lines(['{"id": "0", "title": "A", "text": "b"}', line]), "pages.jsonl"))
    assert "pages.jsonl: 1 malformed line" in str(caught.value)
    assert f"line 2: {message}" in str(caught.value)


def test_many_malformed_lines_are_counted_in_full():
    with pytest.raises(CorpusError, match=r"30 malformed(?s:.*)line 10(?s:.*)and more"):
        list(Corpus(json_lines(["x"] * 30)))


def test_malformed_lines_can_be_left_out_but_a_repeated_id_cannot():
    good, again = '{"id": "0", "title": "A", "text": "b"}', '{"id": "0", "title": "C", "text": "d"}'
    reading = Corpus(json_lines([good, "x", "[]"]), strict=False)
    assert [document.title for document in reading] == ["A"]
    assert (reading.documents, reading.malformed) == (1, 2)
    assert reading.problems[0].startswith("line 2: not JSON")
    with pytest.raises(CorpusError, match="line 2: id '0' was used in line 1"):
        list(Corpus(json_lines([good, again]), strict=False))


@pytest.mark.parametrize("strict", [True, False])
def test_a_corpus_without_a_document_says_why_with_and_without_strict(strict):
    lines = [json.dumps({"question": "who?", "answers": ["x"]})] * 12
    with pytest.raises(CorpusError) as caught:
        list(Corpus(json_lines(lines), "questions.jsonl", strict))
    said = str(caught.value)
    assert "no document in it, 12 malformed line(s)" in said
    assert "line 1: field text (or contents) is missing; fields found: question, answers" in said
    assert "expected: {id, title, text}" in said and "parquet" in said
    with pytest.raises(CorpusError, match="no document in it; it is empty"):
        list(Corpus(json_lines(["", " "]), strict=strict))


def test_no_file_is_an_error(tmp_path):
    with pytest.raises(CorpusError, match=r"missing\.jsonl: cannot be read: No such file"):
        read_corpus(tmp_path / "missing.jsonl")


@given(st.text(st.characters(blacklist_characters="\n"), min_size=1).map(str.strip).filter(bool), st.text())
def test_contents_give_title_and_text_back(title, text):
    assert split_contents(join_contents(title, text)) == (title, text)
