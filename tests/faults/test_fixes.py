"""E01-E10: what fixes must never do to a file."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.faults.harness import GOOD, GOOD_FIXED, TORCHLINT, Done, Fault
from tests.faults.plugin import install
from tests.patience import PATIENCE

POSIX = pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals and modes")
LOOP = "import torch\n\n\ndef f(model, loader, n):\n    for x in loader:\n        mask = None\n"
END = "        model(x, mask).sum().backward()\n"
OLD, NEW = "torch.ones(n).cuda()", GOOD_FIXED


def body(*lines: str) -> str:
    """Return a training loop that holds these lines."""
    return LOOP + "".join(f"        {line}\n" for line in lines) + END


def applied(fault: Fault, done: Done, code: int = 0) -> None:
    """Check the exit code of a ``fix --apply``, and that the control file was fixed."""
    fault.holds("I3", done.code == code, f"exit code {done.code}\n{done.text}")
    fault.others_fixed()


def noted(done: Done, name: str) -> list[str]:
    """Return the lines on standard error about a file."""
    return [
        line for line in done.err.decode("utf-8", "replace").splitlines() if line.startswith(name)
    ]


OVERLAPS = {
    "nested.py": ("torch.outer(torch.inner(2))", "torch.fine(torch.fine(2))"),
    "inside_out.py": ("torch.inner(torch.outer(2))", "torch.fine(torch.fine(2))"),
    "deep.py": (f"{'torch.outer(torch.inner(' * 3}2{')' * 6}", f"{'torch.fine(' * 6}2{')' * 6}"),
    "shrinks.py": ("torch.slow_to_rest(torch.inner(1), torch.inner(2))", "None"),
    "ten_rounds.py": (f"torch.slow_to_rest({', '.join('0123456789')})", "None"),
}


@pytest.mark.fault("E01")
def test_e01_of_overlapping_fixes_the_outer_goes_first_and_the_inner_in_a_later_round(
    fault: Fault, tmp_path: Path
) -> None:
    for name, (old, _) in OVERLAPS.items():
        fault.write(name, f"import torch\n{old}\n")
    too_many = f"import torch\ntorch.slow_to_rest({', '.join('01234567890')})\n"
    fault.write("eleven_rounds.py", too_many)
    real = body("mask = torch.full((n,), torch.ones(n).cuda().size(0)).cuda()")
    fault.write("real.py", real)
    done = fault.run("fix", ".", "--apply", env=install(tmp_path / "plugin"))
    applied(fault, done, 2)
    for name, (_, new) in OVERLAPS.items():
        fault.holds("I4", (fault.folder / name).read_text() == f"import torch\n{new}\n", name)
    fault.holds(
        "I4",
        (fault.folder / "eleven_rounds.py").read_text() == too_many,
        "stopped at ten, nothing written",
    )
    fault.holds("I3", noted(done, "eleven_rounds.py:2:"), done.text)
    new = body('mask = torch.full((n,), torch.ones(n, device="cuda").size(0), device="cuda")')
    fault.holds(
        "I4", (fault.folder / "real.py").read_text() == new, (fault.folder / "real.py").read_text()
    )


FIXED = {
    "decorator": ("@model(torch.ones(n).cuda())", "def g():", "    pass"),
    "chain": ("mask = torch.ones(n).cuda().float().abs()",),
    "semicolons": ("a = 1; mask = torch.ones(n).cuda(); b = 2",),
    "last_of_semicolons": ("a = 1; mask = torch.ones(n).cuda();",),
    "one_line_if": ("if n: mask = torch.ones(n).cuda()",),
    "one_line_else": ("if n: pass", "else: mask = torch.ones(n).cuda()"),
    "one_line_for": ("for i in range(2): mask = torch.ones(n).cuda(); b = i",),
    "one_line_with": ("with n: mask = torch.ones(n).cuda()",),
    "one_line_class": ("class A: mask = torch.ones(n).cuda()",),
    "elif": ("if n: pass", "elif torch.ones(n).cuda() is n: pass"),
    "while": ("while torch.ones(n).cuda() is None: pass",),
    "walrus": ("if (mask := torch.ones(n).cuda()) is not None:", "    pass"),
    "comprehension": ("mask = [torch.ones(n).cuda() for _ in x]",),
    "starred": ("mask = [*torch.ones(n).cuda()]",),
    "subscript": ("mask = model[torch.ones(n).cuda()]",),
    "keyword": ("mask = model(x, mask=torch.ones(n).cuda(), n=1)",),
    "unary": ("mask = -torch.ones(n).cuda() ** 2",),
    "await": ("mask = (yield torch.ones(n).cuda())",),
    "tuple": ("mask = torch.ones(n).cuda(),",),
    "annotated": ("mask: torch.Tensor = torch.ones(n).cuda()",),
    "augmented": ("n += torch.ones(n).cuda()",),
    "matched": ("match torch.ones(n).cuda():", "    case None: pass"),
    "tabs": ("if n:", "\tmask = torch.ones(n).cuda()"),
    "no_blanks": ("if n:mask=torch.ones(n).cuda()",),
    "return": ("if n:", "    return(torch.ones(n).cuda())"),
}
"""Lines whose fix replaces exactly `OLD` by `NEW`, wherever in a statement that stands."""
REWRITTEN = {
    "inside_brackets": (
        ("mask = torch.ones( \\", "    n).cuda()"),
        ("mask = torch.ones( \\", '    n, device="cuda")'),
    ),
    "continued": (
        ("mask = \\", "    torch.ones(n) \\", "    .cuda()"),
        ("mask = \\", f"    {NEW}"),
    ),
    "parentheses": (("mask = (torch.ones(n)", "        .cuda())"), (f"mask = ({NEW})",)),
    "trailing_comma": (
        ("mask = torch.ones(n,).cuda()",),
        ('mask = torch.ones(n, device="cuda",)',),
    ),
    "glued": (("mask = (1)if n else torch.ones(n).cuda()",), (f"mask = (1)if n else {NEW}",)),
}
WITHHELD = {
    "f_string": ('name = f"{torch.ones(n).cuda()}"',),
    "f_string_nested": ('name = f"{n:{torch.ones(n).cuda()}}"',),
    "f_string_triple": ('name = f"""', "{torch.ones(n).cuda()}", '"""'),
    "implicit_join": ('name = "a" f"{torch.ones(n).cuda()}"',),
}
"""Lines in which no edit can be written down safely."""
UNKNOWN = {
    "lambda_default": ("g = lambda a=torch.ones(n).cuda(): a",),
    "default": ("def g(a=torch.ones(n).cuda()): return a",),
}
"""Lines that may be fixed or not: the text must stay valid Python."""


@pytest.mark.fault("E02")
def test_e02_every_place_of_an_expression_stays_valid_python(fault: Fault) -> None:
    for name, lines in {**FIXED, **WITHHELD, **UNKNOWN}.items():
        fault.write(f"{name}.py", body(*lines))
    for name, (lines, _) in REWRITTEN.items():
        fault.write(f"{name}.py", body(*lines))
    done = fault.run("fix", ".", "--apply")
    applied(fault, done)
    for path in fault.folder.glob("*.py"):
        ast.parse(path.read_text())
    for name, lines in FIXED.items():
        text = (fault.folder / f"{name}.py").read_text()
        fault.holds("I4", text == body(*lines).replace(OLD, NEW), f"{name}\n{text}")
    for name, (_, lines) in REWRITTEN.items():
        text = (fault.folder / f"{name}.py").read_text()
        fault.holds("I4", text == body(*lines), f"{name}\n{text}")
    for name, lines in WITHHELD.items():
        fault.holds("I4", (fault.folder / f"{name}.py").read_text() == body(*lines), name)
    left = fault.run("check", ".", "--output-format=json", "--select=TL102")
    for name in WITHHELD:
        fault.holds("I3", left.of(f"{name}.py"), f"{name} is still a finding")


COMMENTS = {
    "between_arguments": ("mask = torch.ones(", "    n,  # the size", ").cuda()"),
    "on_a_line_of_its_own": ("mask = torch.ones(", "    # the size", "    n", ").cuda()"),
    "before_the_dot": (
        "mask = (",
        "    torch.ones(n)  # the size",
        "    # moved",
        "    .cuda()  # here",
        ")",
    ),
    "in_the_empty_call": ("mask = torch.ones(n).cuda(  # now", ")"),
    "behind": ("mask = torch.ones(n).cuda()  # the size",),
    "above": ("# the size", "mask = torch.ones(n).cuda()"),
    "below": ("mask = torch.ones(n).cuda()", "# the size"),
    "in_a_string": ('mask = model(torch.ones(n).cuda(), "# the size")  # really',),
    "twice_the_same": ("mask = (torch.ones(n)  # n", "        .cuda()  # n", "        )  # n"),
}


@pytest.mark.fault("E03")
def test_e03_no_comment_is_lost(fault: Fault) -> None:
    for name, lines in COMMENTS.items():
        fault.write(f"{name}.py", body(*lines))
    before = {name: body(*lines) for name, lines in COMMENTS.items()}
    applied(fault, fault.run("fix", ".", "--apply"))
    fixed = set()
    for name, old in before.items():
        new = (fault.folder / f"{name}.py").read_text()
        ast.parse(new)
        for mark in ("# the size", "# moved", "# here", "# now", "# n\n", "# really"):
            fault.holds("I4", new.count(mark) == old.count(mark), f"{name} {mark}\n{new}")
        if new != old:
            fixed.add(name)
    fault.holds(
        "I3", fixed >= {"between_arguments", "behind", "above", "below", "in_a_string"}, fixed
    )
    left = fault.run("check", ".", "--output-format=json", "--select=TL102")
    for name in before:
        fault.holds(
            "I3",
            bool(left.of(f"{name}.py")) == (name not in fixed),
            f"{name}: fixed, or still a finding",
        )


USE = "cuda.amp.GradScaler()"
RENAMED = 'torch.amp.GradScaler("cuda")'
GIVEN = "import os\nfrom torch import cuda\n"
IMPORTS = {
    "docstring.py": ('"""Doc."""\n\n', "import torch\n"),
    "future.py": ('"""Doc."""\n\nfrom __future__ import annotations\n\n', "import torch\n"),
    "future_alone.py": ("from __future__ import annotations\n", "import torch\n"),
    "shebang.py": ("#!/usr/bin/env python\n# -*- coding: utf-8 -*-\n", "import torch\n"),
    "licence.py": ("# Copyright 2024\n# All rights reserved.\n\n", "import torch\n"),
    "type_checking.py": (
        "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    import torch\n\n",
        "import torch\n",
    ),
    "known.py": ("import torch\n", ""),
}
"""What stands above `GIVEN`, and what the fix adds below it."""
REFUSED = {
    "taken.py": "torch = 3\n",
    "taken_below.py": "def torch(): ...\n",
    "other_module.py": "import torchlite as torch\n",
    "star.py": "from pylab import *\n",
}
"""What stands below `GIVEN` and makes `torch` mean something else, or may."""


@pytest.mark.fault("E04")
def test_e04_a_needed_import_goes_to_its_place_once(fault: Fault) -> None:
    tail = f"\na = {USE}\nb = {USE}\nc = cuda.is_available(), os.sep\n"
    for name, (above, _) in IMPORTS.items():
        fault.write(name, above + GIVEN + tail)
    for name, below in REFUSED.items():
        fault.write(name, GIVEN + below + tail)
    aliased = (
        f"import torch as library\nfrom torch import cuda\n\na = {USE}\nc = cuda.is_available()\n"
    )
    fault.write("aliased.py", aliased)
    applied(fault, fault.run("fix", ".", "--apply", "--unsafe-fixes"))
    for name, (above, added) in IMPORTS.items():
        text = (fault.folder / name).read_text()
        fault.holds(
            "I4", text == above + GIVEN + added + tail.replace(USE, RENAMED), f"{name}\n{text}"
        )
        compile(text, name, "exec")
    for name, below in REFUSED.items():
        fault.holds("I4", (fault.folder / name).read_text() == GIVEN + below + tail, name)
    text = (fault.folder / "aliased.py").read_text()
    new = RENAMED.replace("torch", "library")
    fault.holds("I4", text == aliased.replace(USE, new), text)


ALIASED = """import torch as th
from torch.utils.data import DataLoader


def evaluate(model, loader):
    for x in loader:
        print(model(x.cuda()).shape)


def train(model, data, optimizer):
    for x in DataLoader(data, num_workers=4):
        loss = model(x.cuda())
        if loss.sum() > 3:
            loss = loss * 2
        loss.backward()
        optimizer.step()
"""


@pytest.mark.fault("E04")
def test_e04_torch_is_called_as_the_file_calls_it(fault: Fault) -> None:
    path = fault.write("aliased.py", ALIASED)
    applied(fault, fault.run("fix", ".", "--apply", "--unsafe-fixes"))
    text = path.read_text()
    fault.holds(
        "I4",
        text.startswith("import torch as th\nfrom torch.utils.data import DataLoader\n\n\n@th."),
        text,
    )
    for use in ("@th.no_grad()", "pin_memory=th.cuda.is_available()", "th.where("):
        fault.holds("I4", use in text, f"{use}\n{text}")


STRANGERS = {
    "rebound.py": LOOP.replace("import torch\n", "import torch\n\ntorch = object()\n"),
    "shadowed.py": LOOP.replace("loader, n", "loader, n, torch"),
    "local.py": LOOP.replace("    for", "    torch = model.backend\n    for"),
    "other.py": LOOP.replace("import torch\n", "import mytorch as torch\n"),
    "star.py": LOOP.replace("import torch\n", "from torch_like import *\n"),
    "class.py": LOOP.replace("import torch\n", "import torch\n\n\nclass torch:\n    pass\n"),
    "loop_variable.py": LOOP.replace("for x in", "for torch in"),
    "walrus.py": LOOP.replace("    for", "    print(torch := model.backend)\n    for"),
    "global.py": LOOP.replace("    for", "    global torch\n    torch = n\n    for"),
}
"""Modules whose name `torch` is something else, or nobody knows what."""
STILL_TORCH = {
    "star_after.py": LOOP.replace("import torch\n", "import torch\nfrom anything import *\n"),
    "caught.py": LOOP.replace(
        "import torch\n", "try:\n    import torch\nexcept ImportError:\n    torch = None\n"
    ),
}
"""Modules that import torch, and then could bind its name anew: in practice to torch itself, or to
nothing."""


@pytest.mark.fault("E05")
def test_e05_no_fix_where_torch_may_be_something_else(fault: Fault) -> None:
    """A star import below ``import torch`` is not taken for a second origin: too much real code has
    one."""
    for name, head in {**STRANGERS, **STILL_TORCH}.items():
        fault.write(name, f"{head}        mask = {OLD}\n{END}")
    applied(fault, fault.run("fix", ".", "--apply"))
    for name, head in STRANGERS.items():
        fault.holds(
            "I4", (fault.folder / name).read_text() == f"{head}        mask = {OLD}\n{END}", name
        )
    for name, head in STILL_TORCH.items():
        fault.holds(
            "I3", (fault.folder / name).read_text() == f"{head}        mask = {NEW}\n{END}", name
        )


BROKEN = {
    "keyword.py": "import torch\n\nx = torch.broken(1)\n",
    "twice.py": "import torch\n\nx = torch.broken(1)\ny = torch.broken(2)\n",
    "unordered.py": "import torch\r\n\r\nx = torch.unordered(1)",
}


@pytest.mark.fault("E06")
def test_e06_a_fix_that_breaks_the_file_is_taken_back_and_called_our_bug(
    fault: Fault, tmp_path: Path
) -> None:
    """Sound fixes of the same file are kept: only what breaks it is taken back (conventions B4:
    "apply the rest")."""
    for name, text in BROKEN.items():
        os.utime(fault.write(name, text), ns=(1, 1))
    fault.write("mixed.py", "import torch\n\ntorch.outer(1)\ntorch.broken(1)\ntorch.inner(1)\n")
    done = fault.run("fix", ".", "--apply", env=install(tmp_path / "plugin"))
    applied(fault, done, 2)
    for name, text in BROKEN.items():
        path = fault.folder / name
        fault.holds("I4", path.read_bytes() == text.encode(), path.read_bytes())
        fault.holds("I4", path.stat().st_mtime_ns == 1, f"{name} was touched")
    new = "import torch\n\ntorch.fine(1)\ntorch.broken(1)\ntorch.fine(1)\n"
    fault.holds(
        "I4",
        (fault.folder / "mixed.py").read_text() == new,
        (fault.folder / "mixed.py").read_text(),
    )
    for name, words in {**dict.fromkeys(BROKEN, ":3: "), "mixed.py": ":4: "}.items():
        (line, *_) = [*noted(done, name), ""]
        fault.holds("I3", f"{name}{words}" in line and "please report" in line, done.text)


@pytest.mark.fault("E07")
def test_e07_fixes_that_never_come_to_rest_are_stopped_and_taken_back(
    fault: Fault, tmp_path: Path
) -> None:
    texts = {
        "restless.py": "import torch\n\nx = torch.restless(1)\n",
        "beside.py": "import torch\n\ntorch.outer(1)\nx = torch.restless(1)\n",
    }
    for name, text in texts.items():
        os.utime(fault.write(name, text), ns=(1, 1))
    done = fault.run("fix", ".", "--apply", env=install(tmp_path / "plugin"))
    applied(fault, done, 2)
    for name, text in texts.items():
        path = fault.folder / name
        fault.holds("I4", path.read_text() == text, path.read_text())
        fault.holds("I4", path.stat().st_mtime_ns == 1, f"{name} was touched")
        fault.holds(
            "I3",
            any("do not come to rest; please report this" in line for line in noted(done, name)),
        )


ODD_NAMES = (
    os.fsdecode(b"sub dir/\xff.py"),
    "sub dir/tab\t.py",
    "sub dir/line\nbreak.py",
    "sub dir/back\\slash.py",
)


def edges() -> dict[str, bytes]:
    """Return files whose every byte counts, each with something to fix."""
    line = b"def f(): return torch.ones(3).cuda()"
    utf8 = GOOD.encode()
    return {
        "crlf.py": utf8.replace(b"\n", b"\r\n"),
        "no_newline.py": b"import torch\n" + line,
        "no_newline_crlf.py": b"import torch\r\n" + line,
        "mixed.py": b"import torch\r\n" + line + b"\n" + line + b"\r\n\n" + line,
        "cr.py": b"import torch\r" + line + b"\r" + line + b"\r",
        "bom.py": b"\xef\xbb\xbfimport torch; n = 3\n" + line + b"\n",
        "bom_crlf.py": b"\xef\xbb\xbf" + utf8.replace(b"\n", b"\r\n"),
        "latin.py": b"# coding: latin-1\nimport torch\ny = '\xe9'\n" + line + b"  # \xe9\n",
        "gbk.py": b"# coding: gbk\nimport torch\ny = '\xc4\xe3'\n" + line + b"  # \xba\xc3\n",
        "form_feed.py": b"import torch\n\x0c\n" + line + b"\n\x0cclass A: pass\n",
        "separators.py": "import torch\ny = '\u2028\x85\x0b'\n".encode() + line + b"\n",
        "emoji.py": b"import torch\n"
        + line.replace(b"()", "(y='\U0001f525e\u0301')".encode(), 1)
        + b"  # \xf0\x9f\x94\xa5\n",
        "blank_end.py": b"import torch\n" + line + b"\n\n   \n\t\n",
        "far_apart.py": b"import torch\n" + line + b"\n" + b"y = 1\n" * 40 + line + b"\n",
        "tabs.py": b"import torch\nif torch:\n\t" + line + b"\n",
        "dashes.py": b"import torch\n" + line + b"\n-- 3\n++ 3\n",
        "import.py": (
            b"from torch.utils.data import DataLoader\r\n\r\n\r\ndef train(model, data):\r\n"
            b"    for x in DataLoader(data, num_workers=2):\r\n"
            b"        model(x.cuda()).sum().backward()"
        ),
        "sub dir/with space.py": utf8,
        "sub dir/\u00e9\U0001f525.py": utf8,
        'sub dir/quote".py': utf8,
        "a/b/c/d.py": utf8,
        **dict.fromkeys(ODD_NAMES if sys.platform == "linux" else (), utf8),
    }


@pytest.mark.fault("E08")
@POSIX
def test_e08_a_second_run_touches_nothing(fault: Fault) -> None:
    before = edges()
    for name, data in before.items():
        fault.write(name, data)
    fault.write("nothing.py", "import torch\n\x0c\nx = 1   \n \n")
    fault.write("withheld.py", body(*WITHHELD["f_string"]))
    fault.write("broken.py", "import torch\ndef (\n")
    applied(fault, fault.run("fix", ".", "--apply"), 1)
    for name, data in before.items():
        fault.holds("I4", (fault.folder / name).read_bytes() != data, f"{name} has a fix")
    for path in fault.folder.rglob("*.py"):
        os.utime(path, ns=(1, 1))
    first = snapshot(fault.folder)
    applied(fault, fault.run("fix", ".", "--apply"), 1)
    second = snapshot(fault.folder)
    fault.holds("I4", first == second, {name for name in first if first[name] != second.get(name)})


def snapshot(folder: Path) -> dict[str, tuple[int, int, int, int, bytes]]:
    """Return what a user can see of each file of a tree."""
    found = {}
    for path in folder.rglob("*.py"):
        state = path.stat()
        found[str(path)] = (
            state.st_mtime_ns,
            state.st_ctime_ns,
            state.st_ino,
            state.st_mode,
            path.read_bytes(),
        )
    return found


@pytest.mark.fault("E09")
def test_e09_the_patch_applied_by_git_equals_apply(fault: Fault) -> None:
    """The patch goes to a file: some of its bytes are those of the sources, which a terminal would
    not take."""
    before = edges()
    for name, data in before.items():
        fault.write(name, data)
    git = ("git", "-c", "core.autocrlf=false", "-c", "core.whitespace=-cr-at-eol")
    subprocess.run([*git, "init", "-q", "."], cwd=fault.folder, check=True)
    done = fault.run("fix", ".", "-o", "../fixes.patch")
    fault.holds("I3", done.code == 1, done.text)
    streamed = subprocess.run(
        [TORCHLINT, "fix", "."], cwd=fault.folder, capture_output=True, check=False
    )
    patch = (fault.folder / "../fixes.patch").read_bytes()
    fault.holds("I3", streamed.stdout == patch, "the patch on standard output is the same")
    for name, data in before.items():
        fault.holds(
            "I4", (fault.folder / name).read_bytes() == data, f"{name}: a preview writes nothing"
        )
    apply = subprocess.run(
        [*git, "apply", "../fixes.patch"], cwd=fault.folder, capture_output=True, check=False
    )
    fault.holds("I4", apply.returncode == 0, apply.stderr)
    names = (*before, "good.py")
    patched = {name: (fault.folder / name).read_bytes() for name in names}
    for name, data in before.items():
        fault.write(name, data)
    fault.write("good.py", GOOD)
    applied(fault, fault.run("fix", ".", "--apply"))
    for name in names:
        fault.holds("I4", (fault.folder / name).read_bytes() == patched[name], name)
        fault.holds("I3", patched[name] != before.get(name), f"{name} has a fix")


KILLS_OF_WRITES, KILLS_OF_RUNS = 460, 40
KILLED = """
import json, os, random, signal, sys, time
from torchlint.source.write import write
from torchlint.source.document import read

TEXTS = [(text * 2, text * 10_000) for text in ("old = 1\\n", "something = new\\n")]
names = [f"f{number}.py" for number in range(5)]
chance = random.Random(10)

def put(which):
    for number, name in enumerate(names):
        write(read(os.path.abspath(name), name, 0), TEXTS[which][number % 4 == 0])

for number, name in enumerate(names):
    open(name, "w").write(TEXTS[0][number % 4 == 0])
start = time.monotonic()
put(1)
whole = time.monotonic() - start
torn, mixed = [], 0
for attempt in range(int(sys.argv[1])):
    child = os.fork()
    if not child:
        while True:
            put(0)
            put(1)
    time.sleep(chance.uniform(0, 1.2 * whole))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    states = []
    for number, name in enumerate(names):
        text = open(name).read()
        found = [which for which in (0, 1) if text == TEXTS[which][number % 4 == 0]]
        torn += [] if found else [name]
        states += found
    mixed += len(set(states)) > 1
print(json.dumps({"torn": torn, "mixed": mixed}))
"""


def strays(folder: Path) -> list[Path]:
    """Return what lies in a folder beside its files; all of it has to be hidden, and no Python."""
    return [path for path in folder.iterdir() if not path.name.endswith(".py")]


def hidden(path: Path) -> bool:
    """Say whether a left-over file is one that no tool takes for source, and that torchlint knows
    for its own."""
    return path.name.startswith(".torchlint-") and path.name.endswith(".tmp")


@pytest.mark.fault("E10")
@pytest.mark.slow
@POSIX
def test_e10_killed_while_writing_each_file_is_old_or_new(fault: Fault) -> None:
    """Most of the 500 kills hit the writer itself, which is all that a killed run could tear files
    with.

    Files with several hard links are not among them: to keep the links they are written in place
    (F07), which no order of system calls makes safe against kill -9; their former text is kept
    beside them meanwhile.
    """
    program = [sys.executable, "-c", textwrap.dedent(KILLED), str(KILLS_OF_WRITES)]
    done = subprocess.run(
        program, cwd=fault.folder, capture_output=True, check=True, timeout=PATIENCE
    )
    counts = json.loads(done.stdout)
    fault.holds("I4", counts["torn"] == [], counts)
    fault.holds(
        "I3",
        counts["mixed"] > KILLS_OF_WRITES / 10,
        f"the kills hit a run that was writing: {counts}",
    )
    fault.holds("I4", all(map(hidden, strays(fault.folder))), strays(fault.folder))
    swept(fault)


def swept(fault: Fault) -> None:
    """Check that what killed runs left is passed over, and removed by a later run once it is
    old."""
    left = strays(fault.folder)
    for path in left:
        path.write_text("import torch\ntorch.ones(3).cuda()\n")
    done = fault.run("check", ".", "--show-files")
    fault.holds("I3", b".torchlint-" not in done.out, done.text)
    for path in left:
        os.utime(path, (1, 1))
    applied(fault, fault.run("fix", ".", "--apply"))
    fault.holds("I4", strays(fault.folder) == [], strays(fault.folder))


@pytest.mark.fault("E10")
@pytest.mark.slow
@POSIX
def test_e10_killed_runs_leave_each_file_old_or_new(fault: Fault) -> None:
    """The rest of the 500: whole runs, half of them killed at any moment, half once the first file
    is written."""
    chance = random.Random(10)
    old = "import torch\ndef f():\n" + "    x = torch.ones(3).cuda()\n" * 5
    new = "import torch\ndef f():\n" + '    x = torch.ones(3, device="cuda")\n' * 5
    paths = [fault.folder / f"f{number:02}.py" for number in range(60)]
    whole, mixed = 0.0, 0
    for attempt in range(KILLS_OF_RUNS + 1):
        for path in paths:
            path.write_text(old)
        start = time.monotonic()
        process = subprocess.Popen(
            [TORCHLINT, "fix", ".", "--apply", "-q", "--jobs=1"],
            cwd=fault.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        if attempt == 0:
            fault.holds("I3", process.wait(60) == 0, "left alone, the run ends well")
            whole = time.monotonic() - start
            continue
        if attempt % 2:
            time.sleep(chance.uniform(0, whole))
        else:
            while process.poll() is None and paths[0].read_text() == old:
                time.sleep(0.001)
            time.sleep(chance.uniform(0, whole / 20))
        process.kill()
        process.wait()
        with contextlib.suppress(
            ProcessLookupError
        ):  # its workers, which end by themselves but later
            os.killpg(process.pid, signal.SIGKILL)
        texts = [path.read_text() for path in paths]
        fault.holds("I4", {*texts} <= {old, new}, "a file is neither old nor new")
        fault.holds("I4", all(map(hidden, strays(fault.folder))), strays(fault.folder))
        mixed += len({*texts}) > 1
    fault.holds("I3", mixed > 5, f"the kills hit runs that were writing: {mixed}")
    for path in paths:
        path.write_text(old)
    swept(fault)
    fault.holds(
        "I4", all(path.read_text() == new for path in paths), "the next run fixes what is left"
    )
