"""Building: complete or not at all, goes on after an interruption, replaces only an index."""

import json
import threading
import time

import pytest
from typer.testing import CliRunner

from tests.tools.search.tiny_encoder import save_encoder
from tools.search import build as module
from tools.search.build import BuildSettings, build_index
from tools.search.cli import app
from tools.search.document import Document
from tools.search.index import open_index
from tools.search.manifest import IndexFolderError, Manifest
from tools.search.records import CorpusError
from tools.search.store import DocumentStore, write_documents

LINES = [
    {"id": "0", "title": "Dune", "text": "A novel by Frank Herbert.", "url": "https://x.org/dune"},
    {"id": "1", "title": "Frank Herbert", "text": "A writer \ud800 北京."},
    {"id": "2", "contents": '"Arrakis"\nA desert.'},
]


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return path


def build(corpus, out, **settings):
    return build_index(corpus, out, BuildSettings(**settings), lambda step, done, total: None)


def test_an_index_answers_from_disk_and_its_manifest_says_what_it_holds(corpus, tmp_path):
    manifest = build(corpus, tmp_path / "index")
    assert (manifest.kind, manifest.documents, manifest.malformed) == ("bm25", 3, 0)
    assert len(manifest.corpus["sha256"]) == 64
    assert Manifest.read(tmp_path / "index") == manifest
    index = open_index(tmp_path / "index")
    assert [hit.document.id for hit in index.search("desert", 3)] == ["2"]
    assert index.documents[1] == Document("1", "Frank Herbert", "A writer \ud800 北京.")
    assert index.documents[-1].title == "Arrakis" and len(index.documents[:2]) == 2
    assert index.page("https://x.org/dune") == index.page("DUNE") == [index.documents[0]]


def test_malformed_lines_are_reported_by_number_and_counted(corpus, tmp_path):
    with corpus.open("a") as file:
        file.write("{\n")
    runner = CliRunner()
    words = ["build", "--corpus", str(corpus), "--out", str(tmp_path / "index")]
    strict = runner.invoke(app, [*words, "--strict"])
    assert strict.exit_code == 1 and "line 4: not JSON" in strict.output
    assert not (tmp_path / "index").exists()
    finished = runner.invoke(app, words)
    assert finished.exit_code == 0 and "1 malformed record(s) left out" in finished.output
    assert "line 4: not JSON" in finished.output
    assert Manifest.read(tmp_path / "index").malformed == 1


def test_a_repeated_id_is_an_error(corpus, tmp_path):
    with corpus.open("a") as file:
        file.write(json.dumps(LINES[0]) + "\n")
    with pytest.raises(CorpusError, match="line 4: id '0' was used in line 1"):
        build(corpus, tmp_path / "index")


def test_a_corpus_that_is_not_there_is_named(tmp_path):
    with pytest.raises(CorpusError, match=r"nowhere\.jsonl: no such file"):
        build(tmp_path / "nowhere.jsonl", tmp_path / "index")


def test_an_interrupted_build_goes_on_with_what_is_done(corpus, tmp_path, monkeypatch):
    def stop(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module.BM25Ranker, "build", stop)
        with pytest.raises(KeyboardInterrupt):
            build(corpus, tmp_path / "index")
    assert not (tmp_path / "index").exists()
    with monkeypatch.context() as patched:
        patched.setattr(module, "write_documents", stop)  # they are stored already
        assert build(corpus, tmp_path / "index").documents == 3
    assert not (tmp_path / "index.partial").exists()


def test_another_corpus_does_not_go_on_with_the_parts_of_the_first(corpus, tmp_path, monkeypatch):
    def stop(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module.BM25Ranker, "build", stop)
        with pytest.raises(KeyboardInterrupt):
            build(corpus, tmp_path / "index")
    corpus.write_text(json.dumps(LINES[0]) + "\n")
    assert build(corpus, tmp_path / "index").documents == 1


def test_an_index_is_replaced_only_if_asked_and_nothing_else_ever_is(corpus, tmp_path):
    build(corpus, tmp_path / "index")
    with pytest.raises(IndexFolderError, match="--replace"):
        build(corpus, tmp_path / "index")
    build(corpus, tmp_path / "index", replace=True)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").touch()
    with pytest.raises(IndexFolderError, match="holds no index"):
        build(corpus, tmp_path / "thesis", replace=True)
    assert (tmp_path / "thesis" / "chapter.tex").exists()


@pytest.mark.parametrize("place", ["index", "index.old", "index.partial"])
def test_what_lies_where_a_build_puts_its_own_is_never_removed(corpus, tmp_path, place):
    build(corpus, tmp_path / "index")
    (tmp_path / place).mkdir(exist_ok=True)
    (tmp_path / place / "notes").write_text("mine")
    with pytest.raises(IndexFolderError, match="no part of the index|holds no index|no half-built index"):
        build(corpus, tmp_path / "index", replace=True)
    assert (tmp_path / place / "notes").read_text() == "mine"
    assert len(list((tmp_path / "index").iterdir())) > 1


def test_an_index_stays_readable_while_another_takes_its_place(corpus, tmp_path):
    build(corpus, tmp_path / "index")
    index = open_index(tmp_path / "index")
    wrong: list[object] = []
    ending = threading.Event()

    def search():
        while not ending.is_set():
            if [hit.document.id for hit in index.search("desert", 3)] != ["2"]:
                wrong.append(1)

    thread = threading.Thread(target=search)
    thread.start()
    for _ in range(3):
        build(corpus, tmp_path / "index", replace=True)
    time.sleep(0.05)
    ending.set()
    thread.join()
    assert not wrong


@pytest.mark.parametrize("name", ["documents.jsonl", "titles/titles.whole.hashes.npy", "bm25/count.npy"])
def test_a_file_that_is_missing_or_cut_short_is_named(corpus, tmp_path, name):
    build(corpus, tmp_path / "index")
    path = tmp_path / "index" / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(IndexFolderError, match=path.name):
        open_index(tmp_path / "index")
    path.unlink()
    with pytest.raises(IndexFolderError, match="is missing"):
        open_index(tmp_path / "index")


def test_a_machine_without_the_memory_is_told_before_loading(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("tools.search.memory.BYTES_PER_CORPUS_BYTE", 1 << 50)
    with pytest.raises(IndexFolderError, match="GiB of memory"):
        build(corpus, tmp_path / "index")


def test_a_dense_index_needs_an_encoder_and_a_bm25_index_none(tmp_path):
    with pytest.raises(IndexFolderError, match="takes an encoder"):
        BuildSettings(kind="dense")
    with pytest.raises(IndexFolderError, match="takes no encoder"):
        BuildSettings(kind="bm25", encoder=tmp_path)
    with pytest.raises(IndexFolderError, match="known are bm25, dense, hybrid"):
        BuildSettings(kind="sparse")


def test_stored_documents_come_back_as_they_were(tmp_path):
    documents = [Document("a", "T", "x\ny\u2028"), Document("b", "", "z", "https://x.org")]
    assert write_documents(iter(documents), tmp_path) == 2
    store = DocumentStore(tmp_path)
    assert list(store) == documents and store[0:2] == documents
    with pytest.raises(IndexError):
        store[2]


@pytest.mark.parametrize("kind", ["dense", "hybrid"])
def test_an_index_with_vectors_answers_with_its_own_encoder_only(corpus, tmp_path, kind):
    encoder = save_encoder(tmp_path / "tiny")
    words = ["build", "--corpus", str(corpus), "--out", str(tmp_path / "index"), "--kind", kind]
    finished = CliRunner().invoke(app, [*words, "--encoder", str(encoder)])
    assert finished.exit_code == 0, finished.output
    assert not (tmp_path / "index" / "dense" / "vectors").exists(), "the vectors are kept once"
    index = open_index(tmp_path / "index", encoder)
    assert {hit.document.id for hit in index.search("a desert", 3)} == {"0", "1", "2"}
    assert index.search("", 3) == []
    with pytest.raises(IndexFolderError, match="--encoder"):
        open_index(tmp_path / "index")
    other = save_encoder(tmp_path / "other", seed=1)
    with pytest.raises(IndexFolderError, match="other"):
        open_index(tmp_path / "index", other)
