"""Corpus lines: both layouts, and every malformed line named by its number."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.search.corpus import Corpus, CorpusError, Document, read_corpus
from tools.search.wire import join_contents, split_contents


def test_both_layouts_are_read():
    lines = [
        '{"id": "a", "title": "Dune", "text": "A novel."}',
        "",
        '{"id": 7, "contents": "\\"Ann\\"\\nA person."}',
    ]
    assert list(Corpus(lines)) == [Document("a", "Dune", "A novel."), Document("7", "Ann", "A person.")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("[1]", "a JSON object is expected, got list"),
        ('{"title": "A", "text": "b"}', "field id"),
        ('{"id": true, "title": "A", "text": "b"}', "field id"),
        ('{"id": "1", "title": "A"}', "field text is missing"),
        ('{"id": "1", "title": "A", "text": 3}', "field text: a string is expected, got int"),
        ('{"id": "1", "contents": null}', "field contents"),
        ('{"id": "1", "title": " ", "text": ""}', "title and text are both blank"),
        ('{"id": "2", "title": "B", "text": "c", "url": 1}', "field url"),
        ('{"id": "0", "title": "B", "text": "c"}', "id '0' was used in line 1"),
    ],
)
def test_malformed_lines_are_reported_by_number(line, message):
    with pytest.raises(CorpusError) as caught:
        list(Corpus(['{"id": "0", "title": "A", "text": "b"}', line], "pages.jsonl"))
    assert "pages.jsonl: 1 malformed line" in str(caught.value)
    assert f"line 2: {message}" in str(caught.value)


def test_many_malformed_lines_are_counted_in_full():
    with pytest.raises(CorpusError, match=r"30 malformed(?s:.*)line 10(?s:.*)and more"):
        list(Corpus(["x"] * 30))


def test_malformed_lines_can_be_left_out_but_a_repeated_id_cannot():
    good, again = '{"id": "0", "title": "A", "text": "b"}', '{"id": "0", "title": "C", "text": "d"}'
    reading = Corpus([good, "x", "[]"], strict=False)
    assert [document.title for document in reading] == ["A"]
    assert (reading.documents, reading.malformed) == (1, 2)
    assert reading.problems[0].startswith("line 2: not JSON")
    with pytest.raises(CorpusError, match="line 2: id '0' was used in line 1"):
        list(Corpus([good, again], strict=False))


def test_no_document_and_no_file_are_errors(tmp_path):
    with pytest.raises(CorpusError, match="no document"):
        list(Corpus(["", " "]))
    with pytest.raises(CorpusError, match=r"missing\.jsonl: cannot be read"):
        read_corpus(tmp_path / "missing.jsonl")
    (tmp_path / "latin.jsonl").write_bytes('{"id": "1", "contents": "Málaga"}'.encode("latin-1"))
    with pytest.raises(CorpusError, match="not UTF-8"):
        read_corpus(tmp_path / "latin.jsonl")


def test_line_separators_inside_text_do_not_split_a_line(tmp_path):
    line = json.dumps({"id": "1", "title": "A", "text": "one\u2028two\x85three"}, ensure_ascii=False)
    (tmp_path / "c.jsonl").write_text("\ufeff" + line + "\r\n", encoding="utf-8")
    with gzip.open(tmp_path / "c.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write(line)
    assert read_corpus(tmp_path / "c.jsonl") == read_corpus(tmp_path / "c.jsonl.gz")
    assert read_corpus(tmp_path / "c.jsonl")[0].text == "one\u2028two\x85three"


@given(st.text(st.characters(blacklist_characters="\n"), min_size=1).map(str.strip).filter(bool), st.text())
def test_contents_give_title_and_text_back(title, text):
    assert split_contents(join_contents(title, text)) == (title, text)
