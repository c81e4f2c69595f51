"""The faults of a file's structure, P01 to P10: what is nested or chained absurdly costs only its
own file."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

from tests.faults.harness import Fault
from tests.faults.slow_code import (
    CODE,
    checked,
    linted,
    linted_or_late,
    refused,
    unchanged,
)

ROW = CODE.count("\n") + 1
"""The line after `CODE`."""
BRACKETS = {
    "round": ("(", ")"),
    "square": ("[", "]"),
    "curly": ("{", "}"),
    "call": ("f(", ")"),
    "mixed": ("([{", "}])"),
}


def nested(count: int, pair: tuple[str, str], inside: str = "1") -> str:
    """Return a statement with at least `count` brackets open at once."""
    opening, closing = pair
    times = -(-count // len(closing))
    return f"x = {opening * times}{inside}{closing * times}\n"


@pytest.mark.fault("P01")
def test_p01_nested_brackets(fault: Fault) -> None:
    files = {}
    for name, pair in BRACKETS.items():
        for count in (201, 1_300, 2_000, 10_000, 100_000):
            files[f"{name}{count}.py"] = (CODE + nested(count, pair)).encode()
    due = dict.fromkeys(files, ("invalid-syntax", ROW, "too many nested parentheses"))
    refused(fault, files, due)


@pytest.mark.fault("P01")
def test_p01_nested_brackets_beside_a_formatted_string(fault: Fault) -> None:
    """Such a file is left to a worker, as since Python 3.12 the quotes of an f-string may come
    again inside it."""
    text = f"{CODE}s = f'{{1}}'\n"
    files = {
        f"formatted{count}.py": (text + nested(count, BRACKETS["round"])).encode()
        for count in (201, 2_000, 100_000)
    }
    refused(
        fault,
        files,
        dict.fromkeys(files, ("invalid-syntax", ROW + 1, "too many nested parentheses")),
    )


@pytest.mark.fault("P01")
def test_p01_as_many_brackets_as_python_allows(fault: Fault) -> None:
    """Where Python's own parser gives up below its limit for brackets, the file is one that was not
    analysed."""
    linted_or_late(
        fault, {f"{name}.py": CODE + nested(180, pair) for name, pair in BRACKETS.items()}
    )


@pytest.mark.fault("P02")
def test_p02_brackets_that_stay_open(fault: Fault) -> None:
    shapes = {"mixed": "([{", "round": "(", "indexed": "a[", "call": "f(", "lines": "(\n"}
    files = {f"{name}.py": (CODE + shape * 1_500).encode() for name, shape in shapes.items()}
    files["few.py"] = (CODE + "([{" * 60).encode()
    rows = {"lines.py": ROW + 200}
    due = {
        name: ("invalid-syntax", rows.get(name, ROW), "too many nested parentheses")
        for name in files
    }
    due["few.py"] = ("invalid-syntax", ROW, "was never closed")
    refused(fault, files, due)


@pytest.mark.slow
@pytest.mark.fault("P03")
def test_p03_chains_that_overflow_a_stack(fault: Fault) -> None:
    files = {
        "elif.py": "if a:\n    pass\n" + "elif b:\n    pass\n" * 10_000,
        "and.py": f"x = {' and '.join(['a'] * 10_000)}\n",
        "lambda.py": f"x = {'lambda: ' * 5_000}1\n",
        "not.py": f"x = {'not ' * 20_000}a\n",
        "minus.py": f"x = {'-' * 20_000}1\n",
        "power.py": f"x = {' ** '.join(['a'] * 5_000)}\n",
        "ternary.py": f"x = {'a if b else ' * 5_000}c\n",
        "else.py": "if a: pass\nelse:\n"
        + "".join(f"{' ' * k}if b: pass\n{' ' * k}else:\n" for k in range(1, 98))
        + " " * 98
        + "pass\n",
    }
    fault.seconds = 2  # libcst takes 0.7 GiB for each second that it reads the ternaries
    linted_or_late(fault, {name: CODE + text for name, text in files.items()})


def chains(count: int) -> dict[str, str]:
    return {
        f"sum{count}.py": f"from others import a\ny = {' + '.join(['a'] * count)}\n{CODE}",
        f"attribute{count}.py": f"from others import a\ny = a{'.b' * count}\n{CODE}",
        f"subscript{count}.py": f"from others import a\ny = a{'[0]' * count}\n{CODE}",
        f"call{count}.py": f"from others import a\ny = a{'()' * count}\n{CODE}",
        f"method{count}.py": f"from others import a\ny = a{'.b()' * (count // 2)}\n{CODE}",
        f"compare{count}.py": f"from others import a\ny = {' < '.join(['a'] * count)}\n{CODE}",
        f"strings{count}.py": f"from others import a\ny = {'$ ' * count}\n{CODE}".replace(
            "$", "'a'"
        ),
    }


@pytest.mark.slow
@pytest.mark.fault("P04")
def test_p04_chains_of_700(fault: Fault) -> None:
    fault.seconds = 30
    linted(fault, chains(700))


@pytest.mark.fault("P04")
@pytest.mark.slow
def test_p04_chains_of_3000(fault: Fault) -> None:
    fault.seconds = 60
    files = chains(3_000)
    del files["subscript3000.py"]
    linted(fault, files)


@pytest.mark.slow
@pytest.mark.fault("P04")
def test_p04_subscripts_of_3000(fault: Fault) -> None:
    """libcst needs the cube of the length for subscripts, 40 s for these: such a file may not be
    analysed."""
    fault.seconds = 3
    linted_or_late(
        fault, {name: text for name, text in chains(3_000).items() if name.startswith("subscript")}
    )


@pytest.mark.slow
@pytest.mark.fault("P05")
def test_p05_endless_sums(fault: Fault) -> None:
    fault.seconds = 3
    files = {
        f"sum{count}.py": f"{CODE}y = {' + '.join(['a'] * count)}\n" for count in (5_000, 20_000)
    }
    linted_or_late(fault, files)


@pytest.mark.slow
@pytest.mark.fault("P06")
def test_p06_small_files_on_which_the_parser_hangs(fault: Fault) -> None:
    patterns = {
        "tuples.py": "(" * 12 + "a" + ",)" * 12,
        "dicts.py": "{1: " * 12 + "a" + "}" * 12,
        "lists.py": "[" * 23 + "a" + "]" * 23,
    }
    files = {
        name: f"{CODE}match x:\n    case {pattern}: pass\n" for name, pattern in patterns.items()
    }
    for name, text in files.items():
        ast.parse(text)
        fault.write(name, text)
    fault.seconds = 3
    done = checked(fault, bad=len(files))
    fault.holds("I3", done.code == 2, f"exit code {done.code}\n{done.text[-800:]}")
    for name in files:
        (entry,) = done.of(name)
        fault.holds(
            "I3",
            (entry["code"], entry["message"]) == ("not-analysed", "took more than 3 s of CPU time"),
            entry,
        )
    fault.holds("I5", done.cpu <= len(files) * (fault.seconds + 1) + 15, f"{done.cpu} s")
    done = fault.run("fix", "--apply", "tuples.py", "good.py")
    fault.others_fixed()
    fault.holds("I3", done.code == 2, f"exit code {done.code}\n{done.text[-800:]}")
    unchanged(fault, {name: text.encode() for name, text in files.items()})


@pytest.mark.fault("P06")
def test_p06_what_python_refuses_first(fault: Fault) -> None:
    files = {
        "del.py": f"{CODE}del {'(' * 26}1 1{')' * 26}\n".encode(),
        "open.py": f"{CODE}match x:\n case {'[' * 20}\n".encode(),
    }
    refused(
        fault,
        files,
        {"del.py": ("invalid-syntax", ROW, ""), "open.py": ("invalid-syntax", ROW + 1, "")},
    )


def indents(count: int) -> str:
    return "".join(f"{' ' * k}if a:\n" for k in range(count)) + f"{' ' * count}pass\n"


@pytest.mark.fault("P07")
def test_p07_as_deep_as_python_goes(fault: Fault) -> None:
    fault.seconds = 20
    files = {
        "indents.py": indents(99),
        "functions.py": "".join(f"{' ' * k}def g{k}():\n" for k in range(99)) + f"{' ' * 99}pass\n",
        "format.py": "s = f'{a:{b}}'\n",
    }
    linted(fault, {name: CODE + text for name, text in files.items()})


@pytest.mark.fault("P07")
def test_p07_calls(fault: Fault) -> None:
    linted_or_late(fault, {"calls.py": CODE + nested(190, ("f(", ")"))})


@pytest.mark.fault("P07")
def test_p07_deeper_than_python_goes(fault: Fault) -> None:
    files = {f"indents{count}.py": (CODE + indents(count)).encode() for count in (100, 101, 300)}
    due = dict.fromkeys(files, ("invalid-syntax", ROW + 100, "too many levels of indentation"))
    refused(fault, files, due)


@pytest.mark.fault("P07")
def test_p07_formatted_strings(fault: Fault) -> None:
    """How deep these may be nested depends on the Python; they are linted, or refused as that
    Python refuses them."""
    files = {
        "same.py": CODE + "s = " + 'f"{' * 100 + "1" + '}"' * 100 + "\n",
        "format.py": CODE + "s = f'" + "{a:" * 5 + "}" * 5 + "'\n",
    }
    for name, text in files.items():
        fault.write(name, text)
    done = checked(fault, bad=2)
    fault.holds("I3", done.code == 1, f"exit code {done.code}\n{done.text[-800:]}")
    for name in files:
        (entry,) = done.of(name)
        place = (entry["code"], entry["location"]["row"])
        fault.holds("I3", place in (("TL102", ROW - 2), ("invalid-syntax", ROW)), entry)


@pytest.mark.slow
@pytest.mark.fault("P08")
def test_p08_a_million_lines(fault: Fault) -> None:
    path = fault.write("blank.py", "\n" * 1_000_000 + CODE)
    done = checked(fault)
    (entry,) = done.of("blank.py")
    fault.holds(
        "I3", entry["code"] == "not-analysed" and "--max-file-size" in entry["message"], entry
    )
    path.unlink()
    linted_or_late(fault, {"comments.py": "#a\n" * 200_000 + CODE})


@pytest.mark.fault("P08")
@pytest.mark.slow
def test_p08_a_million_lines_without_a_limit(fault: Fault) -> None:
    linted_or_late(fault, {"blank.py": "\n" * 1_000_000 + CODE})


def tables() -> dict[str, str]:
    table = "".join(f"    ({k}, 'name{k}', {k / 7}),\n" for k in range(60_000))
    line = ";".join(f"x{k} = a + {k}" for k in range(60_000))
    return {"table.py": f"{CODE}table = [\n{table}]\n", "line.py": f"{CODE}{line}\n"}


@pytest.mark.slow
@pytest.mark.fault("P09")
def test_p09_big_tables_and_lines(fault: Fault) -> None:
    files = tables()
    for name, text in files.items():
        assert len(text) > 1_000_000
        fault.write(name, text)
    done = checked(fault)
    fault.holds("I3", done.code == 1, done.text[-800:])
    for name in files:
        (entry,) = done.of(name)
        fault.holds(
            "I3", entry["code"] == "not-analysed" and "--max-file-size" in entry["message"], entry
        )
        (fault.folder / name).unlink()
    linted_or_late(fault, {"statements.py": CODE + "a;" * 100_000 + "\n"})


@pytest.mark.fault("P09")
@pytest.mark.slow
def test_p09_big_tables_without_a_limit(fault: Fault) -> None:
    fault.seconds = 20
    linted_or_late(fault, tables())


def library() -> dict[str, Path]:
    """Return known hard files of the standard library and of torch, which is not imported."""
    spec = importlib.util.find_spec("torch")
    assert ast.__file__
    found = {"topics.py": Path(ast.__file__).parent / "pydoc_data" / "topics.py"}
    if spec is not None and spec.origin is not None:
        torch = Path(spec.origin).parent
        found["meta.py"] = torch / "sparse" / "_triton_ops_meta.py"
        found["tests.py"] = torch / "testing" / "_internal" / "common_methods_invocations.py"
    return found


@pytest.mark.fault("P10")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["topics.py", "meta.py", "tests.py"])
def test_p10_hard_files_of_real_libraries(fault: Fault, name: str) -> None:
    path = library().get(name)
    if path is None:
        pytest.skip("torch is not installed")
    fault.seconds = 120
    fault.write(name, path.read_bytes() + b"\n" + CODE.encode())
    done = checked(fault, "--select", "TL102", "--max-file-size", "0")
    fault.holds("I3", done.code == 1, f"exit code {done.code}\n{done.text[-800:]}")
    row = (fault.folder / name).read_text("utf-8").count("\n") - 1
    found = [(entry["code"], entry["location"]["row"]) for entry in done.of(name)]
    fault.holds("I3", found[-1:] == [("TL102", row)], found)
