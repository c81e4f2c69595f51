"""The moves of one batch are repaired as one, with the memory of their loader: programs run before
and after, and must agree."""

from __future__ import annotations

import textwrap

import pytest

from tests.checking import check, fixed
from torchlint.base.finding import Safety
from torchlint.semantic.uses.assumptions import PINNED

torch = pytest.importorskip("torch")

from tests.executed import differences, execute  # noqa: E402 - it imports torch

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Pairs(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return {"x": torch.full((8,), float(index)), "y": torch.tensor(index % 2)}


def stacked(samples):
    return {key: torch.stack([sample[key] for sample in samples]) for key in ("x", "y")}


model = nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(Pairs(), batch_size=2, num_workers=2, collate_fn=stacked)
outs = []


def train(device):
"""
STEP = """\
loss = nn.functional.cross_entropy(model(x), y)
optimizer.zero_grad()
loss.backward()
optimizer.step()
outs.append(loss.detach())
"""
LOOPS = {
    "by key": (
        'for batch in loader:\n    x = batch["x"].to(device)\n    y = batch["y"].to(device)\n'
    ),
    "on one line": (
        'for batch in loader:\n    x, y = batch["x"].to(device), batch["y"].to(device)\n'
    ),
    "counted": (
        'for step, batch in enumerate(loader):\n    x = batch["x"].to(device)\n'
        '    # the classes\n    y = batch["y"].to(device)\n    if step == 2 // 2:\n        break\n'
    ),
}


def program(loop: str, after: str = "") -> str:
    body = loop + textwrap.indent(STEP, "    ") + after
    return HEAD + textwrap.indent(body, "    ") + "\n\ntrain(device)\n"


def repaired(before: str) -> str:
    return fixed(before, "unsafe", codes=frozenset({"TL103"}), line_length=200).after or before


@pytest.mark.parametrize("loop", LOOPS)
def test_all_moves_of_the_batch_and_its_loader_are_repaired(loop: str) -> None:
    before = program(LOOPS[loop], "else:\n    outs.append(loss)\n" if loop != "counted" else "")
    after = repaired(before)
    assert after.count("non_blocking=True") == 2
    assert "collate_fn=stacked, pin_memory=torch.cuda.is_available())" in after
    assert repaired(after) == after
    assert before.count("#") == after.count("#")
    (bad, bad_rng), (good, good_rng) = (
        execute(text.replace("num_workers=2", "num_workers=0")) for text in (before, after)
    )
    assert not differences("outs", bad["outs"], good["outs"])
    assert torch.equal(bad_rng, good_rng)


@pytest.mark.parametrize("loop", LOOPS)
def test_one_fix_holds_all_of_it(loop: str) -> None:
    findings = check(program(LOOPS[loop]), codes=frozenset({"TL103"}), line_length=200).findings
    assert len(findings) == 2
    for finding in findings:
        assert finding.fix is not None
        assert sum("non_blocking" in edit.text for edit in finding.fix.edits) >= 1
        assert any("pin_memory" in edit.text for edit in finding.fix.edits)
        assert len(finding.fix.edits) == 3
        assert PINNED in finding.fix.assumes


UNREAD = {
    "by itself": ("x = x.to(device)\ny = y.to(device)\n", "x = x.to(device, non_blocking=True)\n"),
    "of two": ("x, y = x.to(device), y.to(device)\n", "x = x.to(device, non_blocking=True)\n"),
    "under another name, with its comment": (
        "x = x.to(device)\n# the classes\nlabels = y.to(device)\n\n",
        "x = x.to(device, non_blocking=True)\n\n",
    ),
    "where there is a GPU": (
        "if torch.cuda.is_available():\n    y = y.cuda()\nx = x.to(device)\n",
        "x = x.to(device, non_blocking=True)\n",
    ),
    "both": (
        "z, y = x.to(device), y.to(device)\nx = x.to(device)\n",
        "x = x.to(device, non_blocking=True)\n",
    ),
    "beside other code": (
        "x = x.to(device); y = y.to(device)\n",
        "x = x.to(device, non_blocking=True)\n",
    ),
}
READ = {
    "deleted": "x = x.to(device)\ny = y.to(device)\nouts.append(x)\ndel y\n",
    "read in the next step": "x = x.to(device)\nouts.append(last)\nlast = y.to(device)\n",
    "a part of what code gives": "x = x.to(device)\ny = next(rest).to(device)\n",
    "all that a test holds that may do more": (
        "if outs.append(1):\n    y = y.to(device)\nx = x.to(device)\n"
    ),
    "one of two tests": (
        "if len(outs):\n    y = y.to(device)\nelse:\n    outs.append(1)\nx = x.to(device)\n"
    ),
}


def unread(moves: str) -> str:
    step = STEP.replace("nn.functional.cross_entropy(model(x), y)", "model(x).square().mean()")
    loop = f"for x, y in loader:\n{textwrap.indent(moves + step, '    ')}"
    head = HEAD.replace("=stacked", "=stacked, pin_memory=pin").replace(
        'return {key: torch.stack([sample[key] for sample in samples]) for key in ("x", "y")}',
        'return [torch.stack([sample[key] for sample in samples]) for key in ("x", "y")]',
    )
    head = head.replace("model =", "pin = torch.cuda.is_available()\nmodel =")
    rest = "    last, rest = 0, iter([])\n"
    return head + rest + textwrap.indent(loop, "    ") + "\n\ntrain(device)\n"


@pytest.mark.parametrize("name", UNREAD)
def test_what_nothing_reads_is_no_longer_copied(name: str) -> None:
    moves, new = UNREAD[name]
    before, after = unread(moves), unread(new)
    codes = frozenset({"TL103"})
    assert fixed(before, "safe", codes=codes, line_length=200).after == after
    (bad, bad_rng), (good, good_rng) = (
        execute(text.replace("num_workers=2", "num_workers=0")) for text in (before, after)
    )
    assert not differences("outs", bad["outs"], good["outs"])
    assert torch.equal(bad_rng, good_rng)


@pytest.mark.parametrize("name", READ)
def test_what_something_may_need_is_copied_as_before(name: str) -> None:
    before = unread(READ[name])
    after = fixed(before, "unsafe", codes=frozenset({"TL103"}), line_length=200).after or before
    assert before.count("device)") == after.count("device)") + after.count("non_blocking")
    assert "y.to(device" in after or "next(rest).to(device" in after


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_repair_is_as_safe_whichever_of_its_copies_is_looked_at(place: int) -> None:
    """A project with encodings does not show of what only goes elsewhere that it is a tensor."""
    names = ["x", "y"]
    names.insert(place, "ids")
    moves = "".join(f'    {name} = batch["{name}"].to(device)\n' for name in names)
    loop = f"for batch in loader:\n{moves}{textwrap.indent(STEP, '    ')}    keep(ids)\n"
    head = HEAD.replace(
        "import torch\n", "import torch\nfrom transformers import BatchEncoding\n", 1
    )
    before = head.replace("=stacked", "=stacked, pin_memory=True") + textwrap.indent(loop, "    ")
    codes = frozenset({"TL103"})
    fixes = [each.fix for each in check(before, codes=codes, line_length=200).findings]
    assert [fix is not None and fix.safety for fix in fixes] == [Safety.UNSAFE] * 3
    assert not fixed(before, "safe", codes=codes, line_length=200).after
    known = before.replace("    keep(ids)\n", "    outs.append(model(ids))\n")
    assert fixed(known, "safe", codes=codes, line_length=200).after.count("non_blocking") == 3


@pytest.mark.parametrize(
    ("new", "moves"),
    [
        ("num_workers=0", 0),
        ("num_workers=2, pin_memory=pinned", 2),
        ("num_workers=2, pin_memory=True", 2),
    ],
    ids=["no workers, so that nothing is gained", "somebody else decides", "pinned already"],
)
def test_the_loader_stays(new: str, moves: int) -> None:
    before = program(LOOPS["by key"]).replace("num_workers=2", new)
    after = repaired(before)
    assert after.count("non_blocking=True") == moves
    assert after.replace(", non_blocking=True", "") == before


OWN = "\n\nclass Graph:\n    def to(self, device):\n        return self\n"
TAKES = "\n\nclass Graph:\n    def to(self, device, non_blocking=False):\n        return self\n"


@pytest.mark.parametrize(("beside", "moves"), [("", 1), (TAKES, 1), (OWN, 0)])
def test_a_whole_batch_may_be_no_tensor(beside: str, moves: int) -> None:
    loop = "for batch in loader:\n    batch = batch.to(device)\n    x, y = batch\n"
    before = program(loop) + beside
    assert not fixed(before, "safe", codes=frozenset({"TL103"})).after
    assert repaired(before).count("non_blocking=True") == moves


def test_moves_with_work_between_them_have_one_fix_too() -> None:
    loop = LOOPS["by key"].replace("    y =", "    print(step)\n    y =")
    findings = check(program(loop), codes=frozenset({"TL103"}), line_length=200).findings
    assert [len(f.fix.edits) for f in findings if f.fix is not None] == [3, 3]
    assert len({f.fix for f in findings}) == 1


def test_a_safe_fix_pins_what_it_copies() -> None:
    before = program(LOOPS["by key"]).replace(", collate_fn=stacked", "")
    after = fixed(before, "safe", codes=frozenset({"TL103"}), line_length=200).after
    assert after.count(", non_blocking=True") == 2
    pinned = after.replace(", non_blocking=True", "")
    assert pinned.replace(", pin_memory=torch.cuda.is_available()", "") == before != pinned


def test_strictly_no_memory_is_taken_for_granted() -> None:
    before = program(LOOPS["by key"]).replace(", collate_fn=stacked", "")
    codes = frozenset({"TL103"})
    assert not fixed(before, "safe", codes=codes, line_length=200, strict=True).after


ANYWHERE = """\
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

args = argparse.Namespace(device="cpu")
outs = []


def train(model, optimizer, loader):
    device = args.device
    for x, y in loader:
        {moves}
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        outs.append(loss.detach())


torch.manual_seed(0)
net = nn.Linear(2, 3).to(args.device)
data = TensorDataset(torch.arange(6.0).reshape(3, 2), torch.arange(3))
loader = DataLoader(data, 1, pin_memory=torch.cuda.is_available())
train(net, torch.optim.SGD(net.parameters(), lr=0.1), loader)
"""
COPIED = {
    "in a tuple": "x, y = x.to(device), y.to(device).long()",
    "written on the device": "x, y = x.to(device), y.to(device); x.add_(1)",
    "another name": "z = x.to(device); z.add_(1); x, y = z, y.to(device)",
}
SHARED = {
    "written by another name": "z = x; x, y = x.to(device), y.to(device); z.add_(1)",
    "written behind another move": "a, b = x.to(device), x.to(args.device); b.add_(1); print(a)",
    "handed out by another name": "z = x; x = x.to(device); outs.append(z)",
}


@pytest.mark.parametrize("name", [*COPIED, *SHARED])
def test_what_is_done_with_the_copy_does_not_write_what_is_copied(name: str) -> None:
    before = ANYWHERE.format(moves={**COPIED, **SHARED}[name])
    safe = fixed(before, "safe", codes=frozenset({"TL103"})).after or before
    assert (safe != before) == (name in COPIED)
    after = repaired(before)
    assert "non_blocking=True" in after
    (bad, bad_rng), (good, good_rng) = execute(before), execute(after)
    assert not differences("outs", bad["outs"], good["outs"])
    assert torch.equal(bad_rng, good_rng)


MASKS = """\
from torch.nn.attention.flex_attention import BlockMask


def train(train_loader: DataLoader, model, optimizer, mask: BlockMask, device):
    for x, y in train_loader:
        {moves}
        loss = nn.functional.cross_entropy(model(x, mask), y)
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("moves", "offered"),
    [
        ("x, y = x.to(device), y.to(device)", True),
        ("x, mask = x.to(device), mask.to(device)", False),
    ],
)
def test_no_loader_makes_a_mask_of_blocks(moves: str, offered: bool) -> None:
    head = "from torch import nn\nfrom torch.utils.data import DataLoader\n"
    before = head + MASKS.format(moves=moves)
    assert ("x.to(device, non_blocking=" in repaired(before)) == offered
    assert "mask.to(device, non_blocking" not in repaired(before)


TWO_WAYS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


def train(samples, model, optimizer, epochs):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(samples, num_workers=2)
    for epoch in range(epochs):
        if epoch > 0:
            loader = DataLoader(samples, shuffle=True, num_workers=2)
        for data in loader:
            step(data, model, optimizer, device)


def step(data, model, optimizer, device):
    for at in range(4):
        part, wanted = cut(data, at, device)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(part), wanted).backward()
        optimizer.step()


def cut(data, at, device):
    part = data[at : at + 4]
    wanted = data[at + 1 : at + 5].view(-1)
    part = part.to(device)
    wanted = wanted.to(device)
    return part, wanted
"""


def test_a_loader_that_is_found_in_two_ways_is_pinned_once() -> None:
    after = fixed(TWO_WAYS, "unsafe", codes=frozenset({"TL103"}), line_length=200).after
    assert after.count("pin_memory=torch.cuda.is_available()") == 2
    assert after.count("non_blocking=True") == 2
    compile(after, "", "exec")


UNSURE = """\
import torch


class Graph:
    def to(self, device):
        return self


def gathered(x, z, device, model):
    batch = {"x": x.to(device), "z": z.to(device)}
    return model(batch) + x.size(0)


def train(pairs, device, model):
    loader = torch.utils.data.DataLoader(pairs, pin_memory=True)
    for batch in loader:
        gathered(torch.cat(batch[:2]), *batch[2:], device, model).backward()
"""


def test_of_moves_in_one_statement_all_change_or_none() -> None:
    found = check(UNSURE, codes=frozenset({"TL103"})).findings
    assert found
    assert {each.fix.safety.value for each in found if each.fix is not None} == {"suggestion"}


PAGEABLE = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from somewhere import rewards_of, samples, table

device = torch.device("cuda")
model = nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(batches):
    {body}


def main():
    loader = DataLoader(samples, batch_size=4, num_workers=4, pin_memory=True)
    train({given})


main()
"""
OF_A_LOADER = {
    "unpacked": "for x, y in batches:\n    loss = model(x.to(device)).sum()\n    ",
    "its parts by a comprehension": (
        "for batch in batches:\n    batch = {k: v.to(device) for k, v in batch.items()}\n"
        "    loss = model(batch['x']).sum()\n    "
    ),
    "its parts by a loop": (
        "for batch in batches:\n    for k, v in batch.items():\n"
        "        batch[k] = v.to(device)\n    loss = model(batch['x']).sum()\n    "
    ),
    "counted by a bar": (
        "from tqdm import tqdm\nbar = tqdm(enumerate(batches))\nfor _, batch in bar:\n"
        "    loss = model(batch['x'].to(device)).sum()\n    "
    ),
}
OF_NO_LOADER = {
    "a function of another package": (
        "for at in range(9):\n    wins, losses = rewards_of(batches[at])\n"
        "    loss = model(wins.to(device)).sum()\n    "
    ),
    "slices of a table": (
        "for at in range(0, len(batches), 4):\n"
        "    loss = model(batches[at : at + 4].to(device)).sum()\n    "
    ),
    "a loader that nobody sees": (
        "for batch in batches.loader:\n    loss = model(batch['x'].to(device)).sum()\n    "
    ),
}


def offers(body: str, given: str = "loader") -> list[str]:
    lines = textwrap.indent(f"{body}loss.backward()\n    optimizer.step()", " " * 4).lstrip()
    source = PAGEABLE.replace("{body}", lines).replace("{given}", given)
    found = check(source, codes=frozenset({"TL103"})).findings
    return [each.fix.safety.value for each in found if each.fix is not None]


@pytest.mark.parametrize("body", OF_A_LOADER)
def test_batches_of_a_loader_that_pins_are_copied_without_waiting(body: str) -> None:
    assert offers(OF_A_LOADER[body]) in (["unsafe"], ["safe"])


@pytest.mark.parametrize("body", OF_NO_LOADER)
def test_what_no_known_loader_makes_keeps_its_advice_without_a_repair(body: str) -> None:
    given = "loader" if body == "a loader that nobody sees" else "table"
    assert set(offers(OF_NO_LOADER[body], given)) == {"suggestion"}


@pytest.mark.parametrize(
    ("beside", "safety"),
    [
        ("side = torch.cuda.Stream()", Safety.UNSAFE),
        (
            "def head(self):\n    self.stream: torch.cuda.Stream = torch.cuda.Stream(0)",
            Safety.UNSAFE,
        ),
        ("def other(handle):\n    return torch.cuda.ExternalStream(handle)", Safety.UNSAFE),
        ("torch.cuda.current_stream().synchronize()", Safety.SAFE),
        ("import logging\nout = logging.StreamHandler()", Safety.SAFE),
        ("stream = [1, 2]", Safety.SAFE),
    ],
)
def test_streams_of_their_own_may_read_a_batch_too_early(beside: str, safety: Safety) -> None:
    source = f"{program(LOOPS['by key'])}\n\n{beside}\n"
    found = [each for each in check(source).findings if each.code == "TL103"]
    assert found
    assert {each.fix.safety for each in found if each.fix is not None} == {safety}
    assert ("stream" in (found[0].fix.note or "")) is (safety is Safety.UNSAFE)  # type: ignore[union-attr]


DRAINED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


def train(dataset, optimizer, rows, device="cuda"):
    model = nn.Linear(3, 2).to(device)
    total = 0.0
    for x, y in DataLoader(dataset, batch_size=8, num_workers=4, pin_memory=True):
        x = x.to(device, non_blocking=True)
        {first}
        probs = model(x).softmax(1)
        {before}
        loss = nn.functional.nll_loss(probs, y.to(device))
        optimizer.zero_grad()
        loss.backward()
        {after}
        optimizer.step()
    return total
"""
IN_VAIN = [
    {"before": "rows.extend(probs.tolist())"},
    {"before": "rows.append(probs.argmax(1).cpu().numpy())"},
    {"before": "rows[int(probs.argmax())] += 1"},
]
GAINS = [
    {"before": "pass"},
    {"first": "rows.extend((x + 1).tolist())"},
    {"after": "rows.extend(probs.tolist())"},
    {"before": "total += probs.mean().item()"},
    {"before": "rows.extend(y.tolist())"},
]


@pytest.mark.parametrize(
    ("lines", "safety"), [(each, "suggestion") for each in IN_VAIN] + [(e, "safe") for e in GAINS]
)
def test_a_copy_behind_a_wait_for_all_work_is_not_made_asynchronous(
    lines: dict[str, str], safety: str
) -> None:
    text = DRAINED.format(**{"first": "pass", "before": "pass", "after": "pass", **lines})
    fixes = [
        found.fix.safety.value
        for found in check(text, name="src/train.py").findings
        if found.code == "TL103" and found.fix is not None
    ]
    assert fixes == [safety], text


CHOSEN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

device = {device}
model = nn.Linear(8, 3).to(device)
data = torch.utils.data.TensorDataset(torch.randn(8, 8), torch.arange(8) % 3)
loader = DataLoader(data, pin_memory=torch.cuda.is_available())
sgd = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    x, y = x.to(device), y.to(device)
    sgd.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    sgd.step()
"""


@pytest.mark.parametrize(
    ("device", "word"),
    [
        ("'cuda' if torch.cuda.is_available() else 'cpu'", "True"),
        ("torch.device('cuda')", "True"),
        ("'mps' if torch.backends.mps.is_available() else 'cuda'", "torch.cuda.is_available()"),
        ("'xpu' if torch.xpu.is_available() else 'cuda'", "torch.cuda.is_available()"),
        ("torch.device('npu' if hasattr(torch, 'npu') else 'cuda')", "torch.cuda.is_available()"),
    ],
)
def test_on_other_accelerators_the_host_waits_for_the_copy(device: str, word: str) -> None:
    source = CHOSEN.format(device=device)
    after = fixed(source, "safe", codes=frozenset({"TL103"}), line_length=200).after
    assert after.count(f".to(device, non_blocking={word})") == 2
