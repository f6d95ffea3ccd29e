"""Corpus files: what they are is told by their bytes, and what they are not by a message with the remedy."""

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tools.search.corpus import read_corpus
from tools.search.document import Document
from tools.search.memory import postings_build_bytes
from tools.search.records import CorpusError, is_packed, open_records

RECORDS = [{"id": "1", "title": "Dune", "text": "Größe."}, {"id": "2", "title": "Ann", "text": "A.\tB."}]
WANTED = [Document("1", "Dune", "Größe."), Document("2", "Ann", "A.\tB.")]
LINES = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in RECORDS).encode()


def zipped(junk=False, **members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        if junk:  # as macOS adds it
            archive.writestr("__MACOSX/._corpus", b"x")
    return file.getvalue()


def parquet(records):
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(records), file)
    return file.getvalue()


def tarred(content):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        entry = tarfile.TarInfo("corpus.jsonl")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return file.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        LINES,
        b"\xef\xbb\xbf" + LINES.replace(b"\n", b"\r\n\r\n"),
        json.dumps(RECORDS).encode(),
        b"\n " + json.dumps(RECORDS, indent=2).encode(),
        gzip.compress(LINES),
        gzip.compress(LINES[:20]) + gzip.compress(LINES[20:]),
        bz2.compress(LINES),
        lzma.compress(LINES),
        zipped(corpus=LINES, junk=True),
        zipped(corpus=gzip.compress(json.dumps(RECORDS).encode())),
        parquet(RECORDS),
        b"id\ttext\ttitle\n1\tGr\xc3\xb6\xc3\x9fe.\tDune\r\n",
    ],
    ids=[
        "lines",
        "crlf",
        "list",
        "indented",
        "gzip",
        "members",
        "bz2",
        "xz",
        "zip",
        "zip-gzip",
        "parquet",
        "tsv",
    ],
)
def test_a_file_is_read_whatever_it_is_called(content, tmp_path):
    path = tmp_path / "corpus"
    path.write_bytes(content)
    wanted = WANTED[:1] if content.startswith(b"id\t") else WANTED
    assert read_corpus(path) == wanted


def test_zstandard_is_read(tmp_path):
    file = tmp_path / "corpus.zst"
    with pa.output_stream(str(file), compression="zstd") as packed:
        packed.write(LINES)
    assert read_corpus(file) == WANTED


def test_tsv_takes_quoted_fields_and_an_open_quote_swallows_no_row(tmp_path):
    path = tmp_path / "psgs.tsv"
    rows = ["id\ttext\ttitle", '1\t"He said ""no""."\tDune', '2\t"Open is a word\tAnn', '3\t"A" and "B"\tBob']
    path.write_text("\n".join(rows))
    assert [document.text for document in read_corpus(path)] == [
        'He said "no".',
        '"Open is a word',
        '"A" and "B"',
    ]
    path.write_text("\n".join([*rows, "4\tno title"]))
    with pytest.raises(CorpusError, match="line 5: 2 columns, the first line names 3"):
        read_corpus(path)


def test_parquet_rows_are_counted_and_other_columns_left_alone(tmp_path):
    path = tmp_path / "beir.parquet"
    rows = [{"_id": n, "title": None, "text": "A.", "vector": [0.5] * 8} for n in range(2_500)]
    path.write_bytes(parquet([*rows, {**rows[0], "_id": 9_999, "text": None}]))
    with pytest.raises(CorpusError, match="row 2501: field text: a string is expected, got null"):
        read_corpus(path)
    with open_records(path) as records:
        numbers = [number for number, _ in records.entries]
        assert (numbers[0], numbers[-1], records.unit) == (1, 2501, "row")
        assert records.read() == path.stat().st_size


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("Málaga".encode("latin-1"), "not UTF-8 .byte 1.; convert it first"),
        (zipped(corpus=b"", qrels=b""), r"zip archive of 2 files .corpus, qrels.; unpack it"),
        (zipped(), "zip archive of 0 files"),
        (zipped(corpus=LINES)[:60], "cannot be read"),
        (zipped(corpus=parquet(RECORDS)), "a parquet file that is packed; unpack it"),
        (gzip.compress(LINES)[:40], "cannot be read"),
        (gzip.compress(tarred(LINES)), "a tar archive; unpack it"),
        (parquet(RECORDS)[:200], "cannot be read"),
        (parquet([{"question": "who?"}]), "no column text or contents in question"),
        (b"[1, 2", "begins as a JSON list and is none"),
        (b"7\tA passage without a header.", "first line names no column text or contents"),
        (b"[]", "no document in it; it is empty"),
        (b'["a passage"]', "entry 1: an object with fields is expected, got str"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_that_is_no_corpus_is_named_with_what_to_do(content, message, tmp_path):
    path = tmp_path / "corpus.bin"
    path.write_bytes(content)
    with pytest.raises(CorpusError, match=message) as caught:
        read_corpus(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_a_folder_is_named_and_an_index_with_its_option(tmp_path):
    with pytest.raises(CorpusError, match="a folder; a corpus is one file"):
        read_corpus(tmp_path)
    (tmp_path / "manifest.json").touch()
    with pytest.raises(CorpusError, match="an index: give it as --index"):
        read_corpus(tmp_path)


def test_a_failure_of_whoever_uses_the_records_is_not_put_down_to_the_file(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(LINES)

    def use():
        with open_records(path) as records:
            next(records.entries)
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        use()


def test_memory_is_estimated_for_the_unpacked_text(tmp_path):
    plain, packed = tmp_path / "a.gz", tmp_path / "b.jsonl"
    plain.write_bytes(b"x" * 100)
    packed.write_bytes(gzip.compress(LINES) + b"x" * (100 - len(gzip.compress(LINES))))
    assert (is_packed(plain), is_packed(packed)) == (False, True)
    assert postings_build_bytes(packed) > postings_build_bytes(plain)


def test_line_separators_inside_text_do_not_split_a_line(tmp_path):
    line = json.dumps({"id": "1", "title": "A", "text": "one\u2028two\x85three"}, ensure_ascii=False)
    (tmp_path / "c.jsonl").write_text(line, encoding="utf-8")
    assert read_corpus(tmp_path / "c.jsonl")[0].text == "one\u2028two\x85three"
