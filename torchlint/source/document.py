"""A source file as torchlint sees it: decoded text, and all that is needed to write it back byte
for byte."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import stat
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import IO, TYPE_CHECKING

from torchlint.base.errors import SourceError, TooLargeError
from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.base.span import LineIndex
from torchlint.source.paths import kind_of

if TYPE_CHECKING:
    from torchlint.source.notebook import Notebook

_BOM = codecs.BOM_UTF8
_WIDE_BOMS = {  # utf-32-le starts with the mark of utf-16-le, so it comes first
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}
_COOKIE = regex(rb"[ \t\f]*#[^\r\n]*?coding[:=][ \t]*([-\w.]+)", re.ASCII)
_BLANK = regex(rb"[ \t\f]*(?:#[^\r\n]*)?\Z")
_ASCII = bytes([*range(32, 127), *b"\t\r\n\f"])
_NEVER_WRITTEN = frozenset(
    {
        "utf-7",
        "unicode_escape",
        "unicode-escape",
        "raw_unicode_escape",
        "raw-unicode-escape",
        "idna",
        "punycode",
    }
    | {"mbcs", "oem", "undefined"}
)
LARGEST_NOTEBOOK = 100_000_000
"""Bytes of the largest notebook that is read, outputs and all; `max_size` may allow more."""
_SHOWN = 64
_PIECE = 1 << 20
_CODEC_ERRORS = (UnicodeError, ValueError, LookupError, OverflowError)
"""What the codecs of the standard library raise on bytes that are not theirs."""


@frozen
class Document:
    """Decoded source text with its provenance.

    Args:
        filename: the path as the user should see it.
        path: the file on disk, absolute, links resolved; empty for standard input.
        text: the decoded text, without a BOM, with every newline as in the file; of a notebook, its
            cells as one text.
        encoding: the codec's Python name (``"utf-8"``, ``"iso8859-1"``, …).
        bom: whether the bytes start with a UTF-8 byte order mark.
        data: the bytes as read; writing compares the file on disk with them.
        notebook: the code cells, where the file is a notebook.
        left_out: why there is nothing in the file to analyse, or an empty string.
    """

    filename: str
    path: str
    text: str
    encoding: str
    bom: bool
    data: bytes
    notebook: Notebook | None = None
    left_out: str = ""


def read_bytes(path: str, filename: str, max_size: int, *, follow: bool = True) -> bytes:
    """Return the bytes of the regular file `path`, without ever waiting for a FIFO or a device.

    Args:
        path: the file on disk.
        filename: what to call it in messages.
        max_size: the largest size allowed, in bytes; 0 for no limit.
        follow: whether `path` may be a symbolic link.

    Raises:
        TooLargeError: the file is larger than `max_size`.
        SourceError: it does not exist, is not a regular file, or cannot be read.
    """
    flags = (
        os.O_RDONLY
        | getattr(os, "O_NONBLOCK", 0)
        | getattr(os, "O_CLOEXEC", 0)
        | getattr(os, "O_BINARY", 0)
    )
    flags |= 0 if follow else getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(path, flags)
        try:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode):
                raise SourceError(f"{filename}: is {kind_of(mode)}, not a regular file")
            with os.fdopen(descriptor, "rb", closefd=False) as stream:
                data = read_up_to(stream, max_size)
        finally:
            os.close(descriptor)
    except (OSError, ValueError, MemoryError) as error:
        raise SourceError(f"{filename}: {reason_of(error)}") from error
    if max_size and len(data) > max_size:
        raise TooLargeError(f"{filename}: is larger than {max_size} bytes (--max-file-size)")
    return data


def read_up_to(stream: IO[bytes], max_size: int) -> bytes:
    """Return what a stream holds, and of what is larger than `max_size` (0 for no limit) one byte
    more than that."""
    if not max_size:
        return stream.read()
    pieces = []
    left = max_size + 1
    while left:  # a buffer of the whole size may be more than there is memory for
        asked = min(left, _PIECE)
        piece = stream.read(asked)
        pieces.append(piece)
        left = left - asked if len(piece) == asked else 0
    return b"".join(pieces)


def reason_of(error: Exception) -> str:
    """Return why the system refused a path, in lower-case words without the path."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[0].lower() + error.strerror[1:]
    return str(error) or type(error).__name__


def read(path: str, filename: str, max_size: int) -> Document:
    """Read a file; arguments and errors are those of `read_bytes` and `loaded`."""
    return loaded(
        read_bytes(path, filename, byte_limit(filename, max_size)), path, filename, max_size
    )


def byte_limit(filename: str, max_size: int) -> int:
    """Return how many bytes a file may have where its code may have `max_size`: notebooks hold
    images, too."""
    return max(max_size, LARGEST_NOTEBOOK) if max_size and _is_notebook(filename) else max_size


def loaded(data: bytes, path: str, filename: str, max_size: int) -> Document:
    """Return the document that `data` holds: a notebook where the name says so, else Python source.

    Raises:
        TooLargeError: the code cells of a notebook hold more than `max_size` bytes.
        SourceError: the bytes are no text (see `decode`), or no notebook.
    """
    document = decode(data, path, filename)
    if not _is_notebook(filename):
        return document
    from torchlint.source.notebook_json import read_notebook  # most runs meet no notebook

    notebook = read_notebook(document.text, filename)
    if isinstance(notebook, str):
        return replace(document, text="", left_out=notebook)
    size = sum(len(part.cell.source.encode()) for part in notebook.parts)
    if max_size and size > max_size:
        raise TooLargeError(
            f"{filename}: has {size} bytes of code, more than {max_size} (--max-file-size)"
        )
    return replace(document, text=notebook.text, notebook=notebook)


def _is_notebook(filename: str) -> bool:
    return filename.lower().endswith(".ipynb")


def decode(data: bytes, path: str, filename: str) -> Document:
    """Decode Python source by its BOM or coding cookie (PEP 263), else as UTF-8.

    Raises:
        SourceError: the codec is unknown, not for text, contradicts the BOM, or the bytes are not
            valid in it.
    """
    for name, marks in _WIDE_BOMS.items():
        if data.startswith(marks):
            raise SourceError(f"{filename}: starts with a {name} byte order mark; save it as UTF-8")
    bom = data.startswith(_BOM)
    body = data[len(_BOM) :] if bom else data
    encoding = _codec_name(_cookie(body), filename)
    if bom and encoding != "utf-8":
        raise SourceError(
            f"{filename}: has a UTF-8 byte order mark but declares the encoding {encoding}"
        )
    try:
        with _quiet(encoding):
            text = body.decode(encoding)
    except UnicodeDecodeError as error:
        offset = error.start + len(data) - len(body)
        byte = f"byte 0x{data[offset : offset + 1].hex()}"
        raise SourceError(f"{filename}: not valid {encoding}: {byte} at offset {offset}") from error
    except _CODEC_ERRORS as error:
        # Some of these messages hold the newline that they complain of.
        raise SourceError(
            f"{filename}: not valid {encoding}: {' '.join(str(error).split())}"
        ) from error
    return Document(filename, path, text, encoding, bom, data)


def encode(document: Document, new_text: str) -> bytes:
    """Return `new_text` as bytes in the codec of `document`, with its BOM.

    Of a notebook, these are its bytes with the sources exchanged that differ.

    Raises:
        SourceError: the codec cannot hold a character of `new_text`, or no cells can be made of it.
    """
    if document.notebook is not None:
        if new_text == document.text:
            return document.data
        from torchlint.source.notebook_json import rewritten

        old = document.data.decode("utf-8-sig" if document.bom else "utf-8")
        new_text = rewritten(old, document.notebook, new_text, document.filename)
    try:
        with _quiet(document.encoding):
            body = new_text.encode(document.encoding)
    except UnicodeEncodeError as error:
        char = new_text[error.start : error.start + 1]
        row = LineIndex(new_text).position(error.start).row
        message = f"{document.filename}: {document.encoding} cannot hold {char!a} on line {row}"
        raise SourceError(message) from error
    except _CODEC_ERRORS as error:
        raise SourceError(
            f"{document.filename}: {document.encoding} cannot hold the new text: {error}"
        ) from error
    return _BOM + body if document.bom else body


_GENERATED = regex(r"^[^\S\n]*#.*(?:@generated|do not edit|generated by)", re.I | re.MULTILINE)
_HEAD = 1000
"""Characters at the top of a file in which it says that a program wrote it."""


def generated(text: str) -> bool:
    """Say whether a file says of itself that a program wrote it, and will do so again."""
    return _GENERATED.search(text[:_HEAD]) is not None


def fixable(document: Document) -> str:
    """Return why no fix may be written to `document`, or an empty string when fixes may."""
    codec = document.encoding
    if codec in _NEVER_WRITTEN or not _keeps_ascii(codec):
        return f"the encoding {codec} does not keep ASCII text as it is"
    try:
        same = encode(document, document.text) == document.data
    except SourceError:
        same = False
    return (
        ""
        if same
        else f"decoding the file as {codec} and encoding it again does not give the same bytes"
    )


def _cookie(body: bytes) -> str:
    """Return the codec declared on one of the first two lines, or ``"utf-8"``."""
    # CR-only files have lines too, so split at every newline that Python knows. The limit keeps
    # this cheap.
    for line in re.split(rb"\r\n|\r|\n", body, maxsplit=2)[:2]:
        found = _COOKIE.match(line)
        if found:
            return found[1].decode("ascii")
        if not _BLANK.match(line):
            break
    return "utf-8"


def _codec_name(declared: str, filename: str) -> str:
    """Return the Python name of the declared codec, folded as CPython folds it (``utf-8-unix`` is
    UTF-8)."""
    folded = declared[:12].lower().replace("_", "-")
    if folded == "utf-8" or folded.startswith("utf-8-"):
        return "utf-8"
    latin = ("latin-1", "iso-8859-1", "iso-latin-1")
    if folded in latin or folded.startswith(tuple(f"{name}-" for name in latin)):
        return "iso8859-1"
    try:
        with _ignored_warnings():
            codec = codecs.lookup(declared)
    except _CODEC_ERRORS as error:
        raise SourceError(f"{filename}: unknown encoding {declared[:_SHOWN]}") from error
    if not getattr(codec, "_is_text_encoding", True):
        raise SourceError(f"{filename}: {declared} is not an encoding for text")
    if not _reads_cookie(codec.name):
        raise SourceError(
            f"{filename}: declares the encoding {declared}, in which the declaration is not "
            "readable"
        )
    return codec.name


def _reads_cookie(codec: str) -> bool:
    """Say whether plain ASCII words mean themselves in `codec`: they do not in utf-16."""
    try:
        return b"# coding".decode(codec) == "# coding"
    except _CODEC_ERRORS:
        return False


def _keeps_ascii(codec: str) -> bool:
    """Say whether every ASCII character of source text is one and the same byte in `codec`."""
    try:
        with _quiet(codec):
            return (
                _ASCII.decode(codec) == _ASCII.decode("ascii")
                and _ASCII.decode("ascii").encode(codec) == _ASCII
            )
    except _CODEC_ERRORS:
        return False


def _quiet(codec: str) -> contextlib.AbstractContextManager[object]:
    """Silence the warnings that unicode_escape gives for odd escapes; costs nothing for UTF-8."""
    if codec == "utf-8":
        return contextlib.nullcontext()
    return _ignored_warnings()


@contextlib.contextmanager
def _ignored_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
