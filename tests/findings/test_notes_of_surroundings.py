"""What the lines around a finding add to the note of its fix, or take from it: a clock, another
wait, a short loop, a loader made anew."""

from __future__ import annotations

import pytest

from tests.checking import check

HEAD = """\
import time
import timeit
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm


class Files(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return torch.load(self.paths[index]), 1


class Meter:
    def __init__(self):
        self.sum = 0.0

    def update(self, value):
        self.sum += value


device = "cuda"
model = nn.Linear(4, 3).to(device)
criterion = nn.CrossEntropyLoss()
sgd = torch.optim.SGD(model.parameters(), lr=0.1)
meter = Meter()

"""
LOOP = """
def run(dataset, steps):
    end = time.time()
    bar = tqdm(DataLoader(dataset, batch_size=4, shuffle=True, pin_memory=True, num_workers=2))
    for x, y in bar:
        {first}
        x = x.to(device, non_blocking=True)
        y = y.to(device{flag})
        {behind}
        out = model(x)
        loss = criterion(out, y)
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        {last}
"""


def notes(source: str, code: str) -> list[str | None]:
    """Return the notes of the fixes of a program's findings; None where there is no fix."""
    found = check(HEAD + source, codes=frozenset({code})).findings
    return [each.fix.note if each.fix is not None else None for each in found]


def looped(code: str, first: str = "pass", behind: str = "pass", last: str = "pass") -> str:
    """Return the note of the only finding of the training loop."""
    flag = "" if code == "TL103" else ", non_blocking=True"
    (note,) = notes(LOOP.format(first=first, behind=behind, last=last, flag=flag), code)
    assert note is not None
    return note


@pytest.mark.parametrize(
    "line",
    [
        "meter.update(time.time() - end)",
        "data_time = timeit.default_timer() - end",
        "copied = time.perf_counter(); meter.update(copied - end)",
    ],
)
def test_a_clock_behind_a_copy_is_told(line: str) -> None:
    told = "clock read right after it no longer includes the copy"
    assert told in looped("TL103", behind=line)
    assert told not in looped("TL103", first=line)
    assert told not in looped("TL103", last=line)


@pytest.mark.parametrize(
    "clock",
    ["meter.update(time.time() - end)", "end = time.perf_counter()", "print(time.monotonic())"],
)
def test_a_clock_behind_a_logged_read_is_told(clock: str) -> None:
    told, log = "clock read behind it no longer includes the wait", "print(loss.item())"
    assert told in looped(
        "TL105", last=f"{log}; sgd.zero_grad(); {clock}".replace("; ", "\n        ")
    )
    assert told not in looped("TL105", first=clock, last=log)
    assert told not in looped("TL105", last=log)


@pytest.mark.parametrize("read", ["best = max(out.max().item(), 1.0)", "total = float(out.sum())"])
@pytest.mark.parametrize(
    "method", ["set_postfix(loss=loss.item())", "set_description(str(loss.item()))"]
)
def test_a_bar_says_which_wait_stays(read: str, method: str) -> None:
    both = looped("TL105", behind="pass", last=f"{read}\n        bar.{method}")
    assert "still waits for `" in both
    assert "still waits" not in looped("TL105", last=f"bar.{method}")


STEPS = """
def run(dataset, batches):
    for x, y in {over}:
        out = model(x.to(device, non_blocking=True))
        loss = criterion(out, y.to(device, non_blocking=True))
        loss.backward()
        sgd.step()
        print(loss.item())
"""


@pytest.mark.parametrize(
    ("over", "known"),
    [
        ("batches[:30]", True),
        ("zip(batches, range(20))", True),
        ("batches[10:60]", True),
        ("batches[:300]", False),
        ("zip(batches, range(2000))", False),
        ("DataLoader(dataset)", False),
    ],
)
def test_a_loop_shorter_than_the_interval_gets_none(over: str, known: bool) -> None:
    (note,) = notes(STEPS.format(over=over), "TL105")
    assert (note is None) is known


EPOCHS = """
def epoch(loader):
    for x, y in loader:
        loss = criterion(model(x.to(device)), y.to(device))
        sgd.zero_grad()
        loss.backward()
        sgd.step()

{program}

if __name__ == "__main__":
    run([])
"""
ONCE = """
def run(paths):
    loader = DataLoader(Files(paths), batch_size=4, shuffle=True)
    for _ in range(90):
        epoch(loader)
"""


@pytest.mark.parametrize(
    "program",
    [
        """
def run(paths):
    for _ in range(90):
        loader = DataLoader(Files(paths), batch_size=4, shuffle=True)
        epoch(loader)
""",
        """
def run(paths):
    for _ in range(90):
        epoch(DataLoader(Files(paths), shuffle=True))
""",
        """
def one(paths):
    for x, y in DataLoader(Files(paths), batch_size=4, shuffle=True):
        loss = criterion(model(x.to(device)), y.to(device))
        sgd.zero_grad()
        loss.backward()
        sgd.step()


def run(paths):
    for number in range(90):
        one(paths)
""",
    ],
)
def test_a_loader_made_anew_says_that_workers_start_again(program: str) -> None:
    (note,) = notes(EPOCHS.format(program=program), "TL201")
    assert note is not None
    assert "workers start anew in each iteration" in note
    (other,) = notes(EPOCHS.format(program=ONCE), "TL201")
    assert other is not None
    assert "start anew" not in other
