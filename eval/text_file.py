"""The text of a file that a user wants to have read: plain text, or the pages of a PDF."""

from __future__ import annotations

import codecs
from pathlib import Path

from pypdf import PdfReader
from pypdf.errors import PyPdfError

from eval.errors import EvalError
from mempo.outside_text import well_formed

# How a text says its encoding. UTF-32 comes first: its mark in little-endian order begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def read_text(path: Path) -> str:
    """The file's text: UTF-8, UTF-16 or UTF-32 with a byte order mark, or a PDF's.

    Raises:
        EvalError: it cannot be read, or holds no text.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise EvalError(f"{path}: cannot be read: {error.strerror or error}") from error
    text = _pdf_text(path) if content.startswith(b"%PDF-") else _plain_text(path, content)
    if not text.strip():
        raise EvalError(f"{path}: holds no text; of a scanned PDF the text has to be recognised first")
    return text


def _plain_text(path: Path, content: bytes) -> str:
    encoding = next((name for mark, name in _MARKS if content.startswith(mark)), "utf-8-sig")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding != "utf-8-sig":
            told = f"begins as {encoding.upper()} text, but is none from byte {error.start} on; save it anew"
        else:
            told = f"neither UTF-8 text (byte {error.start}) nor a PDF; convert it first"
        raise EvalError(f"{path}: {told}") from error


def _pdf_text(path: Path) -> str:
    try:
        return well_formed("\n\n".join(page.extract_text() for page in PdfReader(path).pages))
    except PyPdfError as error:
        raise EvalError(f"{path}: not a readable PDF: {error}") from error
