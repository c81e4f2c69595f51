"""One slow line inside files of every odd form: it has to be found at its place, and its fix to be
all that changes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tests.faults.harness import GOOD, GOOD_CODE, GOOD_FIXED, Done, Fault

SLOW = "torch.ones(n).cuda()"
FAST = GOOD_FIXED
CODE = GOOD
"""A module with `SLOW` on line 6."""
_AMPLE = 20
"""Seconds for a file that no parser is slow on, so that a busy machine is no fault."""


def place(text: str) -> tuple[int, int]:
    """Return row and column of `SLOW`, both 1-based, counted in code points over Python's three
    newlines."""
    rows = re.split(r"\r\n|\r|\n", text[: text.index(SLOW)])
    return len(rows), len(rows[-1]) + 1


def checked(fault: Fault, *options: str, bad: int = 1) -> Done:
    """Check the case's folder, and hold that the control file's finding is there."""
    done = fault.run("check", ".", "--output-format", "json", *options, bad=bad)
    fault.others(done)
    return done


def applied(fault: Fault, *options: str, bad: int = 1) -> Done:
    """Fix the case's folder, and hold that the control file is fixed."""
    done = fault.run("fix", "--apply", ".", *options, bad=bad)
    fault.others_fixed()
    return done


def linted(
    fault: Fault, files: Mapping[str, str], *options: str, codecs: Mapping[str, str] | None = None
) -> Done:
    """Write the files, each in its codec, and hold that check finds `SLOW` at its place in each,
    and nothing else."""
    fault.seconds = max(fault.seconds, _AMPLE)
    for name, text in files.items():
        fault.write(name, text.encode((codecs or {}).get(name, "utf-8")))
    done = checked(fault, *options, bad=len(files))
    fault.holds("I3", done.code == 1, done.text[-800:])
    for name, text in files.items():
        text = text.removeprefix("\ufeff")
        found = [
            (entry["code"], entry["location"]["row"], entry["location"]["column"])
            for entry in done.of(name)
        ]
        due = [(GOOD_CODE, *place(text))] if SLOW in text else []
        fault.holds("I3", found == due, f"{name}: {found}, due {due}\n{done.text[-800:]}")
    return done


def linted_and_fixed(
    fault: Fault, files: Mapping[str, str], codecs: Mapping[str, str] | None = None
) -> Done:
    """Hold that the files are linted, and that ``fix --apply`` changes `SLOW` to `FAST` and not one
    byte more."""
    linted(fault, files, codecs=codecs)
    done = applied(fault, bad=len(files))
    fault.holds("I3", done.code == 0, done.text[-800:])
    for name, text in files.items():
        fixed = text.replace(SLOW, FAST).encode((codecs or {}).get(name, "utf-8"))
        same(fault, name, fixed)
    return done


def same(fault: Fault, name: str, data: bytes) -> None:
    """Hold that a file has these bytes."""
    now = (fault.folder / name).read_bytes()
    at = next(
        (k for k, (old, new) in enumerate(zip(data, now, strict=False)) if old != new),
        min(len(data), len(now)),
    )
    words = (
        f"{name} differs at {at}: due {data[max(0, at - 60) : at + 60]!r}, is "
        f"{now[max(0, at - 60) : at + 60]!r}"
    )
    fault.holds("I4", now == data, words)


def refused(
    fault: Fault,
    files: Mapping[str, bytes],
    due: Mapping[str, tuple[str, int | None, str]],
    bad: int = 1,
) -> Done:
    """Write files that are no Python; hold that each is reported so and kept as it is, and that the
    run fails with 1.

    Args:
        fault: the case.
        files: their bytes.
        due: for each its code, its line (None for any), and words of its message.
        bad: files that may use up their time.
    """
    fault.seconds = max(fault.seconds, _AMPLE)
    for name, data in files.items():
        fault.write(name, data)
    done = checked(fault, bad=bad)
    fault.holds("I3", done.code == 1, f"exit code {done.code}\n{done.text[-800:]}")
    for name, (code, line, words) in due.items():
        entries = done.of(name)
        fault.holds("I3", [entry["code"] for entry in entries] == [code], f"{name}: {entries}")
        message = entries[0]["message"]
        fault.holds("I3", words in message, f"{name}: {message!r} lacks {words!r}")
        if line is not None:
            row = entries[0]["location"]["row"]
            fault.holds("I3", row == line, f"{name}: line {row}, due {line}")
    done = applied(fault, bad=bad)
    fault.holds("I3", done.code == 1, f"exit code {done.code}\n{done.text[-800:]}")
    unchanged(fault, files)
    return done


def unchanged(fault: Fault, files: Mapping[str, bytes] | Iterable[tuple[str, bytes]]) -> None:
    """Hold that these files have the bytes they had."""
    for name, data in dict(files).items():
        same(fault, name, data)


def linted_or_late(fault: Fault, files: Mapping[str, str], *options: str) -> Done:
    """Check these files whatever their size; hold that each is linted, or listed as one that
    torchlint failed on.

    No process may have taken more than 2 GB.
    """
    for name, text in files.items():
        fault.write(name, text)
    done = fault.run(
        "check", ".", "--output-format", "json", "--max-file-size", "0", *options, bad=len(files)
    )
    fault.others(done)
    late = 0
    for name, text in files.items():
        (entry,) = done.of(name)
        if entry["code"] == "not-analysed":
            late += 1
            fault.holds(
                "I3",
                entry["message"].startswith(
                    ("took more than", "did nothing", "crashed", "out of memory", "nested")
                ),
                entry,
            )
        else:
            at = (entry["location"]["row"], entry["location"]["column"])
            fault.holds("I3", (entry["code"], at) == (GOOD_CODE, place(text)), entry)
    fault.holds("I3", done.code == (2 if late else 1), f"exit code {done.code}\n{done.text[-800:]}")
    fault.holds("I5", done.peak <= 2 * 2**20, f"{done.peak} KiB")
    return done
