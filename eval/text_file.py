"""The text of a file that a user wants to have read: plain text, or the pages of a PDF."""

from __future__ import annotations

from pathlib import Path

from eval.errors import EvalError


def read_text(path: Path) -> str:
    """The file's text.

    Raises:
        EvalError: it cannot be read, holds no text, or is a PDF and the reader for it is not installed.
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
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise EvalError(
            f"{path}: neither UTF-8 text (byte {error.start}) nor a PDF; convert it first"
        ) from error


def _pdf_text(path: Path) -> str:
    try:
        from pypdf import PdfReader
        from pypdf.errors import PyPdfError
    except ImportError:
        raise EvalError(f"{path} is a PDF, and pypdf is not installed: pip install 'mempo[pdf]'") from None
    try:
        return "\n\n".join(page.extract_text() for page in PdfReader(path).pages)
    except PyPdfError as error:
        raise EvalError(f"{path}: not a readable PDF: {error}") from error
