"""The faults of notebooks: N01 to N03."""

from __future__ import annotations

import codecs
import json
from typing import Any

import pytest

from tests.faults.harness import GOOD_CODE, Done, Fault
from tests.faults.slow_code import FAST, SLOW, applied, checked, same, unchanged

LOOP = f"for x in loader:\n    model(x, {SLOW}).sum().backward()"
ROW, COLUMN = 2, 14


def notebook(*sources: Any, **more: Any) -> dict[str, Any]:
    """Return a notebook with a text cell, and code cells of these sources."""
    code = {
        "cell_type": "code",
        "execution_count": 1,
        "metadata": {"tags": []},
        "outputs": [{"text": ["é\u2028/"]}],
    }
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Über\n", SLOW]}
    ]
    cells += [{**code, "source": source} for source in sources]
    return {
        "cells": cells,
        "metadata": {"language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 4,
        **more,
    }


def dumped(*sources: Any, **more: Any) -> str:
    return json.dumps(notebook(*sources, **more), indent=1, ensure_ascii=False)


def places(done: Done, name: str) -> list[tuple[str, int | None, int, int]]:
    """Return code, cell, row and column of a file's findings."""
    return [
        (entry["code"], entry["cell"], entry["location"]["row"], entry["location"]["column"])
        for entry in done.of(name)
    ]


@pytest.mark.fault("N01")
def test_n01_what_is_no_notebook_for_us(fault: Fault) -> None:
    unreadable = {
        "empty.ipynb": b"",
        "cut.ipynb": dumped("import torch", LOOP)[:-40].encode(),
        "comma.ipynb": dumped("import torch", LOOP)
        .replace('"metadata": {},', '"metadata": {},,', 1)
        .encode(),
        "list.ipynb": b"[]",
        "word.ipynb": b"torch",
        "no_source.ipynb": dumped(LOOP).replace('"source": "for', '"text": "for').encode(),
        "source_number.ipynb": dumped(7).encode(),
        "source_object.ipynb": dumped([LOOP, {}]).encode(),
        "twice.ipynb": dumped(LOOP)
        .replace('"tags"', '"tags"')
        .replace('"outputs"', '"source": "x", "outputs"')
        .encode(),
        "surrogate.ipynb": json.dumps(notebook("import torch\ns = '\ud800'")).encode(),
        "deep.ipynb": (
            dumped(LOOP)[:-2] + ', "x": ' + "[" * 100_000 + "]" * 100_000 + "}"
        ).encode(),
        "deep_cut.ipynb": b'{"cells": ' + b"[" * 100_000,
        "latin.ipynb": dumped(LOOP).encode("latin-1", "replace"),
        "wide.ipynb": dumped(LOOP).encode("utf-16"),
        "binary.ipynb": b"\x00\xff\xfe{}",
    }
    skipped = {
        "three.ipynb": (
            {"worksheets": [{"cells": []}], "metadata": {}, "nbformat": 3, "nbformat_minor": 0},
            "nbformat 3",
        ),
        "five.ipynb": (notebook(LOOP, nbformat=5), "nbformat 5"),
        "number.ipynb": ({"cells": []}, "nbformat"),
        "kernel.ipynb": (
            notebook(LOOP, metadata={"kernelspec": {"language": "R", "name": "ir"}}),
            "is written in R",
        ),
        "julia.ipynb": (
            notebook(LOOP, metadata={"language_info": {"name": "julia"}}),
            "is written in julia",
        ),
        "none.ipynb": (
            {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5},
            "has no cells",
        ),
        "missing.ipynb": ({"metadata": {}, "nbformat": 4, "nbformat_minor": 5}, "has no cells"),
    }
    files = {
        **unreadable,
        **{name: json.dumps(value).encode() for name, (value, _) in skipped.items()},
    }
    for name, data in files.items():
        fault.write(name, data)
    fault.seconds = 20
    done = checked(fault, bad=3)
    fault.holds("I3", done.code == 1, done.text[-800:])
    for name in unreadable:
        codes = [entry["code"] for entry in done.of(name)]
        fault.holds("I3", codes == ["unreadable"], f"{name}: {codes}")
    for name, (_, words) in skipped.items():
        found = [(entry["code"], words in entry["message"]) for entry in done.of(name)]
        fault.holds("I3", found == [("not-analysed", True)], f"{name}: {found}")
    (comma,) = done.of("comma.ipynb")
    fault.holds("I3", comma["location"] == {"row": 5, "column": 19}, comma)
    applied(fault, bad=3)
    for name, data in files.items():
        same(fault, name, data)


@pytest.mark.fault("N01")
def test_n01_odd_but_read(fault: Fault) -> None:
    odd = {
        "nan.ipynb": dumped("import torch", LOOP, x=[float("nan"), float("inf")]),
        "digits.ipynb": dumped("import torch", LOOP)[:-2] + ',\n "x": ' + "9" * 100_000 + "\n}",
        "bom.ipynb": "\ufeff" + dumped("import torch", LOOP),
        "other_half.ipynb": dumped("import torch", LOOP)[:-2] + ',\n "x": "\\ud800"\n}',
        "nested.ipynb": dumped("import torch", LOOP)[:-2]
        + ',\n "x": '
        + "[" * 300
        + "]" * 300
        + "\n}",
        "twice_outside.ipynb": dumped("import torch", LOOP).replace(
            '"tags": []', '"tags": [], "tags": 3'
        ),
        "empty_cells.ipynb": dumped("import torch", LOOP, "", [], [""], "\n"),
    }
    for name, text in odd.items():
        fault.write(name, text)
    done = checked(fault)
    for name in odd:
        fault.holds(
            "I3",
            places(done, name) == [(GOOD_CODE, 3, ROW, COLUMN)],
            f"{name}: {places(done, name)}",
        )
    done = applied(fault)
    fault.holds("I3", done.code == 0, done.text[-800:])
    for name, text in odd.items():
        head, tail = text[: text.index(LOOP[:10])], text[text.index(LOOP[:10]) :]
        same(fault, name, (head + tail.replace(SLOW, FAST.replace('"', '\\"'), 1)).encode())


@pytest.mark.fault("N01")
def test_n01_half_written(fault: Fault) -> None:
    """Every prefix of a small notebook: refused at its end, never a crash, never a change."""
    text = json.dumps(notebook(["import torch\n", "x = 1"]), ensure_ascii=False)
    data = {f"p{size:03}.ipynb": text[:size].encode() for size in range(0, len(text), 7)}
    for name, part in data.items():
        fault.write(name, part)
    done = checked(fault)
    fault.holds("I3", done.code == 1, done.text[-800:])
    for name, part in data.items():
        fault.holds("I3", [entry["code"] for entry in done.of(name)] == ["unreadable"], name)
        same(fault, name, part)


@pytest.mark.slow
@pytest.mark.fault("N02")
def test_n02_every_layout_keeps_its_bytes(fault: Fault) -> None:
    layouts: dict[str, dict[str, Any]] = {
        "indent1": {"indent": 1, "ensure_ascii": False},
        "indent4": {"indent": 4},
        "tab": {"indent": "\t", "ensure_ascii": False},
        "compact": {"separators": (",", ":")},
        "line": {"sort_keys": True},
    }
    files: dict[str, tuple[bytes, bytes]] = {}
    for layout, options in layouts.items():
        for form in ("string", "lines", "whole"):
            for end in ("", "\n"):
                for newline in ("\n", "\r\n"):
                    for mark in (b"", codecs.BOM_UTF8):
                        pair = [
                            layed_out(form, options, slow, newline, end, mark)
                            for slow in (SLOW, FAST)
                        ]
                        name = f"{layout}_{form}_{len(end)}_{len(newline)}_{len(mark)}.ipynb"
                        files[name] = (pair[0], pair[1])
    for name, (before, _) in files.items():
        fault.write(name, before)
    fault.seconds = 20
    done = checked(fault, bad=4)
    for name in files:
        fault.holds(
            "I3",
            places(done, name) == [(GOOD_CODE, 3, ROW, COLUMN)],
            f"{name}: {places(done, name)}",
        )
    done = applied(fault, bad=4)
    fault.holds("I3", done.code == 0, done.text[-800:])
    for name, (_, after) in files.items():
        same(fault, name, after)
    done = applied(fault, bad=4)
    for name, (_, after) in files.items():
        same(fault, name, after)


def layed_out(
    form: str, options: dict[str, Any], call: str, newline: str, end: str, mark: bytes
) -> bytes:
    source = f"{LOOP.replace(SLOW, call)}  # größer"
    shaped: Any = {"string": source, "lines": source.splitlines(True), "whole": [source]}[form]
    text = json.dumps(notebook(["import torch\n", "\n"], shaped, "y = 1"), **options) + end
    return mark + text.replace("\n", newline).encode()


MAGICS = {
    "line": ("%matplotlib inline\nimport torch", LOOP, 2),
    "system": ("!pip install torch\nimport torch\nx = !ls\ny, z = %pwd", LOOP, 2),
    "help": ("import torch\n?torch\ntorch.zeros??", f"loader?\n{LOOP}", 3),
    "time": ("import torch", f"%%time\n{LOOP}", 3),
    "form": ("import torch", f"#@title Form\n\n%%capture out\n%%time\n{LOOP}", 6),
    "inside": (
        "import torch",
        f"{LOOP}\n    !nvidia-smi\n    %time y = 1\nif x:\n    !ls \\\n      -l",
        2,
    ),
    "await": ("import torch\nawait f()\nasync with a:\n    pass", f"{LOOP}\nawait g()", 2),
    "semicolon": ("import torch;", f"{LOOP};\nplt.plot(x);", 2),
    "unclosed": ("import torch\n!echo '(\"", f"%echo (\n{LOOP}", 3),
    "run": ("import torch\n%run other.ipynb", LOOP, 2),
}


@pytest.mark.fault("N03")
def test_n03_lines_of_ipython(fault: Fault) -> None:
    files = {f"{name}.ipynb": dumped(first, second) for name, (first, second, _) in MAGICS.items()}
    for name, text in files.items():
        fault.write(name, text)
    fault.seconds = 20
    done = checked(fault, bad=2)
    for name, (_, _, row) in MAGICS.items():
        found = places(done, f"{name}.ipynb")
        fault.holds("I3", found == [(GOOD_CODE, 3, row, COLUMN)], f"{name}: {found}")
    done = applied(fault, bad=2)
    fault.holds("I3", done.code == 0, done.text[-800:])
    for name, (first, second, _) in MAGICS.items():
        same(fault, f"{name}.ipynb", dumped(first, second.replace(SLOW, FAST)).encode())


@pytest.mark.fault("N03")
def test_n03_cells_in_other_languages(fault: Fault) -> None:
    cells = [
        f"%%bash\n{LOOP}",
        f"%%html\n<b>{LOOP}",
        f"#@title x\n%%shell\n{LOOP} (",
        f"%%writefile a.py\n{LOOP}",
        ">>> x = (",
    ]
    text = dumped("import torch", *cells)
    fault.write("n.ipynb", text)
    done = checked(fault)
    fault.holds("I3", places(done, "n.ipynb") == [], done.text[-800:])
    applied(fault)
    same(fault, "n.ipynb", text.encode())


@pytest.mark.fault("N03")
def test_n03_a_fault_has_its_cell_and_row(fault: Fault) -> None:
    bad = {
        "open.ipynb": (dumped("import torch", f"%foo\n{LOOP}\nx = (", "y = 1)"), [(3, 4), (4, 1)]),
        "string.ipynb": (dumped("import torch", "s = '''", f"'''\n{LOOP}"), [(3, 1), (4, 1)]),
        "nul.ipynb": (dumped("import torch", f"{LOOP}\ns = '\0'"), [(3, 3)]),
        "deep.ipynb": (dumped("import torch", "x = 1\n" + "(" * 300 + ")" * 300), [(3, 2)]),
    }
    for name, (text, _) in bad.items():
        fault.write(name, text)
    done = checked(fault)
    fault.holds("I3", done.code == 1, done.text[-800:])
    for name, (_, due) in bad.items():
        found = [
            (entry["cell"], entry["location"]["row"])
            for entry in done.of(name)
            if entry["code"] == "invalid-syntax"
        ]
        fault.holds("I3", found == due and len(done.of(name)) == len(due), f"{name}: {found}")
    applied(fault)
    unchanged(fault, {name: text.encode() for name, (text, _) in bad.items()})
