"""Tensors that are written while a copy is on its way, or after it: TL103 and TL113 offer no safe
fix for them.

On a CPU nothing of this shows, as copies end before the host goes on, or are none; so the offered
safety is tested.
"""

from __future__ import annotations

import pytest

from tests.checking import check, fixed

SETUP = """\
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
"""
LOADER = "loader = DataLoader(dataset, batch_size=4, pin_memory=True)"
CHANGE = "def change(t):\n    t.zero_()\n"
OWN = "    def to(self, device):\n        return self\n"


def lines(text: str, indent: int) -> str:
    return "".join(" " * indent + line + "\n" for line in text.splitlines() if line)


def copying(
    after: str = "",
    before: str = "",
    copy: str = "moved = x.to(device)",
    made: str = LOADER,
    loop: str = "for x, y in loader:",
    file: str = "",
) -> str:
    """Return a program that copies a pinned batch to the GPU, with what it does before and
    after."""
    used = (
        "loss = F.cross_entropy(model(moved.flatten(1)), "
        "y.cuda(non_blocking=True))\nloss.backward()\noptimizer.step()"
    )
    body = f"{before}\n{copy}\n{after}\n{used}"
    return (
        f"{SETUP}{file}\n\ndef run(dataset, kept, fn):\n{lines(made, 4)}    "
        f"{loop}\n{lines(body, 8)}"
    )


def parted(after: str, before: str) -> str:
    """Return a program that copies the second part of a batch, and uses the first."""
    return copying(after, before, "moved = y.cuda()", loop="for batch in loader:")


MAY_OVERLAP = {
    "nothing else": copying(),
    "the name means the copy": copying("F.mse_loss(x, x)\nmoved = x", copy="x = x.to(device)"),
    "facts and reads": copying("print(len(x), x.size(0), x.mean().item(), x.numpy().sum())"),
    "a write before": copying(before="x.mul_(2)"),
    "a write through a view before": copying(before="x.view(-1)[0] = 1"),
    "a function that writes before": copying(before="change(x)", file=CHANGE),
    "a function that reads": copying(
        "look(x)", file="def look(t):\n    print(t.shape, t.sum().item())\n"
    ),
    "an unpacked batch": copying(loop="for batch in loader:", before="x, y = batch"),
    "a batch by key": copying(loop="for batch in loader:", before="x, y = batch['x'], batch['y']"),
    "a counted batch": copying(loop="for i, (x, y) in enumerate(loader):"),
    "the branch that does not copy": copying(
        "fn(y)",
        loop="for i, (x, y) in enumerate(loader):",
        copy="if kept:\n    y = y.to(device)\nmoved = x.to(device)",
    ),
}
PARTS = {
    "the other part of a batch": parted("fn(x)", "x, y = batch"),
    "the other part by its number": parted("fn(batch[0])", "y = batch[1]"),
    "the other part by its key": copying(
        "fn(x)",
        loop="for b in loader:",
        before="x, y = b['x'].flatten(1), b['y'].float()",
        copy="moved = y.cuda()",
    ),
    "parts that are copied under one condition": copying(
        "fn(x, y)",
        loop="for batch in loader:",
        before="x, y = batch[0], batch[1]",
        copy="if kept:\n    y = y.cuda()\nmoved = F.relu(y)",
    ),
    "the branch of an expression that does not copy": copying(
        "fn(y)", copy="y = y.cuda() if kept else y.to(kept)\nmoved = F.relu(y)"
    ),
}
MAY_BE_WRITTEN = {
    "the same part by its number": parted("fn(batch[1])", "x, y = batch"),
    "the same part by another number": parted("fn(batch[-1])", "y = batch[1]"),
    "the same part of another order": parted("fn(batch['y'])", "x, y = batch.values()"),
    "the same part by another name": parted("fn(z)", "x, y = batch\nz, w = y, x"),
    "the whole batch": parted("fn(batch)", "x, y = batch"),
    "a part that goes elsewhere": parted("fn(batch[0])", "y = batch[1]\nbatch[0] = y"),
    "parts in another order": parted("fn(batch[0])", "y = batch[1]\ndel batch[0]"),
    "parts after one is taken out": parted("fn(batch[0])", "y = batch[1]\nbatch.pop(0)"),
    "both the copy and its source": copying(
        "fn(y)", copy="y = (y.cuda(), y)[1]\nmoved = F.relu(y)"
    ),
    "x += 1": copying("x += 1"),
    "an array": copying("x.numpy()[:] = 0"),
    "an array made before": copying("a[:] = 0", before="a = x.numpy()"),
    "an array by asarray": copying("import numpy as np\nnp.asarray(x)[:] = 0"),
    "an array as a target": copying("import numpy as np\nnp.copyto(x.numpy(), 0)"),
    "the data": copying("x.data.zero_()"),
    "a detached tensor": copying("x.detach().zero_()"),
    "another name": copying("other = x\nother.zero_()"),
    "another name from before": copying("other.zero_()", before="other = x"),
    "a walrus": copying("(other := x).zero_()"),
    "one of two": copying("other = x if kept else y\nother.zero_()"),
    "a view": copying("x.view(-1).zero_()"),
    "a view from before": copying("v.zero_()", before="v = x.view(-1)"),
    "a view by a function": copying("torch.flatten(x).zero_()"),
    "rows": copying("for row in x:\n    row.zero_()"),
    "rows of a zip": copying("for a, b in zip(x, y):\n    a.zero_()"),
    "rows of a comprehension": copying("[row.zero_() for row in x]"),
    "chunks": copying("a, b = x.chunk(2)\na.zero_()"),
    "an output": copying("torch.add(x, 1, out=x)"),
    "part of an unpacked target": copying("n, x[0] = 1, 2"),
    "a loop's target": copying("for x[0] in range(3):\n    pass"),
    "other storage": copying("x.data = y"),
    "other storage by setattr": copying("setattr(x, 'data', y)"),
    "the storage": copying("x.untyped_storage().fill_(0)"),
    "an activation": copying("F.relu(x, inplace=True)"),
    "an activation by position": copying("F.relu(x, True)"),
    "a layer": copying("nn.ReLU(inplace=True)(x)"),
    "a function of the file": copying("change(x)", file=CHANGE),
    "a function that is called twice": copying("change(x)", before="change(x)", file=CHANGE),
    "a function two calls away": copying(
        "first(x)", file=CHANGE + "def first(t):\n    change(t.view(-1))\n"
    ),
    "an unknown function": copying("fn(x)"),
    "a list of others": copying("kept.append(x)"),
    "an attribute": copying("fn.x = x"),
    "a closure": copying("later()", before="def later():\n    x.zero_()"),
    "a container": copying("for t in (x, y):\n    t.zero_()"),
    "nested containers": copying("d = {'a': {'b': x}}\nd['a']['b'].zero_()"),
    "the batch's part": copying(
        "batch[0].zero_()", loop="for batch in loader:", before="x, y = batch"
    ),
    "the batch's values": copying(
        "for v in batch.values():\n    v.zero_()",
        loop="for batch in loader:",
        before="x, y = batch['x'], batch['y']",
    ),
    "the next iteration": copying(
        "last = x", before="if last is not None:\n    last.zero_()", made=LOADER + "\nlast = None"
    ),
    "a view of the iteration before": copying(
        "last = x",
        before="if last is not None:\n    v = last.view(-1)\n    v.zero_()",
        made=LOADER + "\nlast = None",
    ),
    "an inner loop": copying(copy="for _ in range(2):\n    x.mul_(2)\n    moved = x.to(device)"),
    "what was pinned by hand": copying(
        "p.zero_()", copy="p = x.pin_memory()\nmoved = p.to(device)"
    ),
    "a buffer of all iterations": copying(
        "buffer.copy_(y)",
        made=LOADER + "\nbuffer = torch.zeros(4, 8).pin_memory()",
        copy="moved = buffer.to(device)",
    ),
    "the frame of a traceback": copying(
        "change()",
        file="def change():\n    try:\n        raise ValueError\n    except ValueError as error:\n"
        "        error.__traceback__.tb_frame.f_back.f_locals['x'].zero_()\n",
    ),
    "locals()": copying("locals()['x'].zero_()"),
    "a generator that is the caller": copying("yield x"),
    "another stream": copying(copy="with torch.cuda.stream(kept):\n    moved = x.to(device)"),
}
MAY_BE_OTHER_OBJECTS = {
    "a collate function": copying(made="loader = DataLoader(dataset, batch_size=4, collate_fn=fn)"),
    "a collate function set later": copying(made=LOADER + "\nloader.collate_fn = fn"),
    "unknown options": copying(made="loader = DataLoader(dataset, **fn)"),
    "no batches": copying(made="loader = DataLoader(dataset, batch_size=None)"),
    "no batches by name": copying(
        made="size = None\nloader = DataLoader(dataset, batch_size=size)"
    ),
    "a generator": copying(
        loop="for x, y in batches():",
        file="def batches():\n    b = torch.empty(4, 8).pin_memory()\n    for i in range(9):\n"
        "        yield b.fill_(i), torch.zeros(4).long()\n",
    ),
    "a list": copying(
        loop="for x, y in [(torch.zeros(4, 8).pin_memory(), torch.zeros(4).long())]:"
    ),
    "a loader of the caller": copying(loop="for x, y in kept:"),
    "a loader in another one": copying(loop="for x, y in fn(loader):"),
    "a loader that an import replaces": copying(
        made="", file="loader = DataLoader([])\nimport json as loader\n"
    ),
    "a loader that a star import may replace": copying(
        made="", file="loader = DataLoader([])\nfrom there import *\n"
    ),
    "perhaps another loader": copying(made=LOADER + "\nif kept:\n    loader = fn(loader)"),
    "a loader that a function replaces": copying(
        made="",
        file=(
            "loader = DataLoader(list(range(9)))\ndef swap(other):\n    global loader\n    "
            "loader = other\n"
        ),
    ),
    "a subclass of Tensor": copying(file="class Image(torch.Tensor):\n" + OWN),
    "a mapping with its own move": copying(file="class Encoding(dict):\n" + OWN),
}
MAY_OVERLAP |= PARTS
NOT_OVERLAPPING = {**MAY_BE_WRITTEN, **MAY_BE_OTHER_OBJECTS}


def keeping(
    after: str = "",
    loss: str = "loss = criterion(model(x.to(device)), y.to(device))",
    step: str = "loss.backward()\noptimizer.step()",
    kept: str = "losses.append(loss.detach().cpu())",
    start: str = "losses = []",
    end: str = "return torch.stack(losses).mean()",
    file: str = "",
    parameters: str = "loader, fn",
) -> str:
    """Return a program that copies the loss of each step to the host, and stacks the copies after
    the loop."""
    body = f"{loss}\n{step}\n{kept}\n{after}"
    run = f"{lines(start, 4)}    for x, y in loader:\n{lines(body, 8)}{lines(end, 4)}"
    return f"{SETUP}{file}\n\ndef run({parameters}):\n{run}"


STAYS = {
    "nothing else": keeping(),
    "reads": keeping("print(loss, loss.item())"),
    "two stacks": keeping(
        end="first = torch.stack(losses)\nreturn first.mean(), torch.stack(losses, dim=0)"
    ),
    "a scaler": keeping(
        start="losses = []\nscaler = torch.cuda.amp.GradScaler()",
        step="scaler.scale(loss).backward()\nscaler.step(optimizer)",
    ),
}
IS_CHANGED = {
    "in place": keeping("loss.mul_(0)"),
    "by a function that averages": keeping(
        "average_(loss)", file="def average_(t):\n    t.div_(2)\n"
    ),
    "by all processes": keeping("torch.distributed.all_reduce(loss)"),
    "by a function that is not known": keeping("fn(loss)"),
    "by an augmented assignment": keeping("loss += 1"),
    "as an output": keeping("torch.mul(loss, 0, out=loss)"),
    "by another name": keeping("other = loss\nother.zero_()"),
    "by the detached tensor": keeping(
        kept="d = loss.detach()\nlosses.append(d.cpu())", after="d.zero_()"
    ),
    "by its data": keeping("loss.data.zero_()"),
    "by a view": keeping("loss.view(1)[0] = 0"),
    "in a container": keeping("for t in [loss]:\n    t.zero_()"),
    "in the next iteration": keeping(
        "last = loss",
        start="losses = []\nlast = None",
        step="if last is not None:\n    last.zero_()\nloss.backward()",
    ),
    "by the next iteration's graph": keeping(
        start="losses = []\nloss = criterion(model(torch.zeros(4, 8)), torch.zeros(4).long())",
        loss="fn.replay()",
    ),
    "by a criterion of the caller": keeping(parameters="loader, fn, criterion"),
    "by a criterion with a buffer": keeping(
        file="class Kept(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.b = torch.zeros(())\n    def forward(self, a, b):\n"
        "        return self.b.copy_(F.cross_entropy(a, b))\ncriterion = Kept()\n"
    ),
}
LIST_IS_SEEN = {
    "a second name": keeping(start="fn.kept = losses = []"),
    "a second name of the loss": keeping(
        loss="fn.last = loss = criterion(model(x.to(device)), y.to(device))"
    ),
    "a second name later": keeping(start="losses = []\nfn.kept = losses"),
    "a closure": keeping(end="def kept():\n    return losses\nreturn kept, torch.stack(losses)"),
}
LIST_IS_READ_LATER = {
    "an output on the host": keeping(
        end="buffer = torch.zeros(5)\ntorch.stack(losses, out=buffer)\nreturn buffer"
    ),
    "a place that is asked for": keeping(end="print(losses[0].device)\nreturn torch.stack(losses)"),
    "other tensors in it": keeping(
        end="losses.append(torch.zeros(()))\nreturn torch.stack(losses)"
    ),
}
NOT_KEPT = {**IS_CHANGED, **LIST_IS_SEEN}


def offered(source: str, code: str, *, strict: bool = False) -> list[str | None]:
    """Return the safety of each finding's fix; that of a copy which waits for nothing has no
    finding."""
    compile(source, "main.py", "exec")
    findings = check(source, codes=frozenset({code}), name="src/train.py", strict=strict).findings
    return [finding.fix.safety.value if finding.fix is not None else None for finding in findings]


@pytest.mark.parametrize("source", MAY_OVERLAP.values(), ids=MAY_OVERLAP.keys())
def test_copy_of_a_batch_that_nothing_writes_is_safe(source: str) -> None:
    assert "safe" in offered(source, "TL103")


_MAY_BE_NO_TENSORS = {
    "unknown options",
    "a mapping with its own move",
    "a collate function set later",
    "perhaps another loader",
}


@pytest.mark.parametrize("source", NOT_OVERLAPPING.values(), ids=NOT_OVERLAPPING.keys())
def test_copy_of_a_batch_that_may_be_written_is_not_safe(source: str) -> None:
    # What these loaders hand out is taken for tensors in an ordinary program, not for more.
    named = {each for each, text in NOT_OVERLAPPING.items() if text == source}
    assert "safe" not in offered(source, "TL103", strict=bool(named & _MAY_BE_NO_TENSORS))


@pytest.mark.parametrize("source", STAYS.values(), ids=STAYS.keys())
def test_losses_that_nothing_changes_stay_on_the_device_safely(source: str) -> None:
    assert offered(source, "TL113") == ["safe"]


@pytest.mark.parametrize("source", NOT_KEPT.values(), ids=NOT_KEPT.keys())
def test_losses_that_may_change_are_copied(source: str) -> None:
    assert "safe" not in offered(source, "TL113")


@pytest.mark.parametrize("source", LIST_IS_READ_LATER.values(), ids=LIST_IS_READ_LATER.keys())
def test_a_list_that_is_read_later_is_the_hosts_behind_its_loop(source: str) -> None:
    assert offered(source, "TL113") == ["safe"]
    after = fixed(source, "safe", codes=frozenset({"TL113"})).after
    assert "    losses = [value.cpu() for value in losses]\n" in after


def test_a_mapping_is_not_detached() -> None:
    used = (
        "for batch in loader:\n    batch = fn(batch)\n    loss = model(**batch).loss\n    "
        "loss.backward()\n"
    )
    body = f"data = []\n{used}    optimizer.step()\n    data.append(batch.cpu())\nreturn data"
    assert offered(f"{SETUP}\n\ndef run(loader, fn):\n{lines(body, 4)}", "TL113") == [None]


@pytest.mark.parametrize(
    "copied", ["loss.detach().to('cpu', torch.float64)", "loss.to(device='cpu', dtype=torch.half)"]
)
def test_a_copy_that_also_casts_is_not_dropped(copied: str) -> None:
    used = (
        "for x, y in loader:\n    loss = model(x.cuda(), y.cuda())\n    loss.backward()\n    "
        "optimizer.step()\n"
    )
    body = f"data = []\n{used}    data.append({copied})\nreturn torch.stack(data)"
    source = f"{SETUP}\n\ndef run(loader):\n{lines(body, 4)}"
    assert offered(source, "TL113") == ["unsafe"]
    after = fixed(source, "unsafe", codes=frozenset({"TL113"}), line_length=200).after
    assert f"data = [value{copied[copied.rindex('.to(') :]} for value in data]" in after


@pytest.mark.parametrize(
    ("made", "copied", "safety"),
    [
        ("", "found.append(model(x.cuda()).argmax(1).cpu())", "unsafe"),
        ("", "out = torch.cat([x.cuda()])\nfound.append(out.argmax(1).cpu())", "unsafe"),
        ("out = fn().cuda()", "model(x.cuda())\nfound.append(out[0].cpu())", None),
        ("out = torch.ones(9, 8).cuda()", "model(x.cuda())\nfound.append(out[0].cpu())", None),
    ],
)
def test_a_list_keeps_what_is_new_in_each_iteration(
    made: str, copied: str, safety: str | None
) -> None:
    body = f"found = []\n{made}\nwith torch.no_grad():\n    for x, y in loader:\n"
    source = (
        f"{SETUP}\n\ndef run(loader, fn):\n{lines(body + lines(copied, 8), 4)}    return found\n"
    )
    assert offered(source, "TL113") == [safety]
