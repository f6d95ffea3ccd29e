"""HTML as text, and long text cut where a sentence ends."""

import pytest

from mempo.prompts import CUT_MARK
from tools.search.web.readable import cut_text, read_html

ARTICLE = "".join(f"<p>Paragraph {n} tells a little more about the desert planet.</p>" for n in range(10))


def test_title_and_text_without_scripts_styles_and_navigation():
    title, text = read_html(
        "<!doctype html><html><head><title>\n Dune:\n a novel </title><style>p {color: red}</style>"
        "<script>steal()</script></head><body><nav><a href='/'>Start page</a></nav><article><h1>Dune</h1>"
        f"{ARTICLE}<script>steal()</script><table><tr><td>Author</td><td>Herbert</td></tr></table></article>"
        "<footer>Imprint</footer></body></html>"
    )
    assert title == "Dune: a novel"
    assert "Paragraph 0 tells" in text and "Paragraph 9 tells" in text and "Herbert" in text
    assert not any(word in text for word in ("steal", "color", "Start page", "Imprint", "<"))


def test_a_page_of_one_sentence_is_read_too():
    assert read_html("<html><head><title>T</title></head><body><p>Short.</p></body></html>") == (
        "T",
        "Short.",
    )


def test_bytes_are_decoded_by_their_content():
    for charset in ("utf-8", "iso-8859-1"):
        page = "<html><body><p>Un café au lait, déjà vu à Orléans, s'il vous plaît.</p></body></html>"
        assert "café" in read_html(page.encode(charset))[1]


@pytest.mark.parametrize(
    "html",
    [
        "",
        b"",
        "no tags",
        "<html></html>",
        "<html><body><script>steal()</script><div id='app'></div></body></html>",
        "<div>" * 100_000,
        b"\x00\xff\xfe" * 1000,
        b"\x1f\x8b\x08 not gzip",
    ],
)
def test_pages_without_text_and_broken_pages_give_no_script_and_no_noise(html, caplog):
    assert "steal" not in "".join(read_html(html))
    assert caplog.text == ""


def test_short_text_stays_whole():
    assert cut_text("One. Two.", 9) == "One. Two."


@pytest.mark.parametrize(
    ("text", "max_chars", "cut"),
    [
        ("One two. Three four. Five six.", 26, "One two. Three four. [cut]"),
        ("One two. Three four. Five six.", 27, "One two. Three four. [cut]"),
        ("One two. Three four. Five six.", 25, "One two. Three [cut]"),
        ('He said "no." Then he left us there.', 20, 'He said "no." [cut]'),
        ("Pi is 3.14159 and so on and on", 20, "Pi is 3.14159 [cut]"),
        ("A heading\nand text without an end", 20, "A heading [cut]"),
        ("沙丘是一部小说。作者是弗兰克。", 14, "沙丘是一部小说。 [cut]"),
        ("x" * 100, 20, "x" * 14 + " [cut]"),
    ],
)
def test_long_text_is_cut_at_a_border_and_marked(text, max_chars, cut):
    assert cut_text(text, max_chars) == cut
    assert cut.endswith(CUT_MARK) and len(cut) <= max_chars
