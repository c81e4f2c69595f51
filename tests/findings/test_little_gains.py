"""A wait is a warning where fixing it frees the step: beside another that stays, or where nothing
overlaps, it is a hint that says so, or nothing at all."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest

from tests.checking import check, job
from tests.semantic.test_project import analysed
from torchlint.base.finding import Finding, Safety, Severity
from torchlint.run.projects import forget
from torchlint.run.worker import analyse_job
from torchlint.semantic.time.autograd import no_grad

INFO, WARNING = Severity.INFO, Severity.WARNING


def found(source: str, code: str, part: str) -> list[Finding]:
    report = check(source, codes=frozenset({code}), name="train.py")
    return [
        each
        for each in report.findings
        if part in each.message.partition(" waits for the GPU in ")[0]
    ]


COPIED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

device = torch.device("cuda")
model = nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda"{enabled})
{free}


def run(dataset, names):
    loader = DataLoader(dataset, batch_size=4, num_workers=2, pin_memory=True)
    total = 0.0
    for x, y in loader:
        x = x.to(device)
{body}
    return total


run(torch.load("data"), torch.load("names"))
"""
TRAINED = """\
        loss = model(x).square().mean()
        {loss}.backward()
        {step}
        {more}
"""
EVALUATED = """\
        with torch.no_grad():
            out = model(x)
        {more}
"""
SCALED = TRAINED.format(loss="scaler.scale(loss)", step="scaler.step(optimizer)", more="{more}")
PLAIN = TRAINED.format(loss="loss", step="optimizer.step()", more="{more}")


@pytest.mark.parametrize(
    ("body", "more", "level", "wait"),
    [
        (SCALED, "scaler.update()", INFO, "`scaler.step(optimizer)`"),
        (PLAIN, "open('log', 'w').write(str(loss.cpu()))", INFO, "`loss.cpu()`"),
        (PLAIN, "total += loss.item()", INFO, "`loss.item()`"),
        (PLAIN, "if len(names) > 3: total += loss.item()", WARNING, ""),
        (PLAIN, "torch.cuda.synchronize()", INFO, "`torch.cuda.synchronize()`"),
        (
            PLAIN,
            "torch.cuda.current_stream().synchronize()",
            INFO,
            "`torch.cuda.current_stream().synchronize()`",
        ),
        (PLAIN, "optimizer.zero_grad()", WARNING, ""),
        (EVALUATED, "torch.cuda.synchronize()", INFO, "`torch.cuda.synchronize()`"),
        (EVALUATED, "total += out.sum().item()", INFO, "`out.sum().item()`"),
        (EVALUATED, "names.append(out.cpu().numpy())", INFO, "`out.cpu()`"),
        (EVALUATED, "total += out.sum()", INFO, ""),
        (EVALUATED, "print(out.sum().item())", None, ""),
        (EVALUATED, "print('mean', out.mean())", None, ""),
        (EVALUATED, "names.write(str(out.argmax(1).cpu()))", None, ""),
    ],
)
def test_a_copy_beside_which_nothing_runs(
    body: str, more: str, level: Severity | None, wait: str
) -> None:
    source = COPIED.format(enabled="", free="", body=body.format(more=more).rstrip())
    findings = found(source, "TL103", "blocking")
    assert [each.severity for each in findings] == ([level] if level is not None else [])
    for each in findings:
        assert (f"waits for the GPU in {wait} as well" in each.message) is bool(wait)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("num_workers=2, pin_memory=True", False),
        ("num_workers=2, pin_memory=torch.load('pin')", True),
        ("num_workers=2, pin_memory=torch.cuda.is_available()", False),
        ("num_workers=2, pin_memory=device.type == 'cuda'", False),
        ("num_workers=2, pin_memory=use_cuda", False),
        ("num_workers=2, pin_memory=not torch.cuda.is_available()", True),
        ("num_workers=2", True),
    ],
)
def test_a_loader_that_pins_is_not_told_to(settings: str, told: bool) -> None:
    source = COPIED.format(enabled="", free="", body=PLAIN.format(more="pass").rstrip())
    source = source.replace("num_workers=2, pin_memory=True", settings)
    (finding,) = found(source, "TL103", "blocking")
    assert ("pin_memory=True in the DataLoader" in finding.message) is told


@pytest.mark.parametrize(
    ("enabled", "fused", "level"),
    [
        ("", "", INFO),
        (", enabled=torch.load('amp')", "", INFO),
        ("", ", fused=False", INFO),
        (", enabled=False", "", WARNING),
        ("", ", fused=True", WARNING),
    ],
)
def test_a_step_of_a_scaler_that_does_not_wait(enabled: str, fused: str, level: Severity) -> None:
    for more, code in (("scaler.update()", "TL103"), ("total += loss.item()", "TL101")):
        body = SCALED.format(more=more).rstrip()
        source = COPIED.format(enabled=enabled, free="", body=body)
        findings = found(source.replace("lr=0.1", f"lr=0.1{fused}"), code, "")
        assert {each.severity for each in findings} == {level}


@pytest.mark.parametrize(
    ("free", "more", "wait"),
    [
        ("def score(out): return out.sum().item()", "total += score(out)", "`score(out)`"),
        ("def score(out): return out.sum()", "total += score(out)", ""),
        (
            "def score(out, t): return ((out > t).sum().item(), t)",
            "for t in (0.1, 0.5): names.append(score(out, t))",
            "`score(out, t)`",
        ),
        ("", "for t in range(4): names[t] = out[t].sum().item()", "`out[t].sum().item()`"),
        ("def score(x): return x.sum().item()", "total += score(y)", ""),
    ],
)
def test_a_function_that_each_batch_runs_waits(free: str, more: str, wait: str) -> None:
    body = EVALUATED.format(more=more).rstrip()
    (finding,) = found(COPIED.format(enabled="", free=free, body=body), "TL103", "blocking")
    assert finding.severity is INFO
    assert (f"waits for the GPU in {wait} as well" in finding.message) is bool(wait)


def test_what_a_model_runs_behind_is_no_end_of_a_step() -> None:
    body = SCALED.format(more="loss = model(x).square().mean()").rstrip()
    (finding,) = found(COPIED.format(enabled="", free="", body=body), "TL103", "blocking")
    assert finding.severity is WARNING


LOGGED = """\
import torch
from torch import nn

model = nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")


def train(batches, writer, bar):
    total = 0.0
    for step, x in enumerate(batches):
        loss = model(x.cuda()).square().mean()
        {before}
        {backward}
        {after}
        writer.add_scalar("loss", loss.item(), step)
    return total


train(torch.load("batches"), torch.load("writer"), torch.load("bar"))
"""


@pytest.mark.parametrize(
    ("before", "backward", "after", "level"),
    [
        ("pass", "loss.backward()", "optimizer.step()", WARNING),
        ("pass", "loss.backward()", "total += loss.item()", INFO),
        ("pass", "scaler.scale(loss).backward()", "scaler.step(optimizer)", INFO),
        ("total += loss.item()", "loss.backward()", "optimizer.step()", WARNING),
        ("pass", "loss.backward()", "if step % 50 == 0: total += loss.item()", WARNING),
    ],
)
def test_a_log_behind_another_wait(before: str, backward: str, after: str, level: Severity) -> None:
    source = LOGGED.format(before=before, backward=backward, after=after)
    (finding,) = found(source, "TL105", "writer.add_scalar")
    assert finding.severity is level
    alone = "waits for the same work: little is gained by fixing one" in finding.message
    assert alone is (level is INFO)
    same = "total += loss.item()" in after and alone
    assert (" Another `loss.item()` waits for the same work" in finding.message) is same


LOGS_TWICE = """\
import torch
from torch import nn

model = nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(batches, writer, size):
    total = 0
    for step, x in enumerate(batches):
        loss = model(x.cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {line}
        {logged}
        writer.add_scalar("root", loss.sqrt().item(), step)
    print(total)


train(torch.load("batches"), torch.load("writer"), torch.load("size"))
"""


@pytest.mark.parametrize("logged", [True, False])
@pytest.mark.parametrize(
    "line", ["total += int(loss)", "total += loss.item() / 3", "total += loss.item() * size"]
)
def test_a_sum_beside_logs_is_put_off_with_them(line: str, logged: bool) -> None:
    log = 'writer.add_scalar("mean", total / (step + 1), step)' if logged else "pass"
    (finding,) = found(LOGS_TWICE.format(line=line, logged=log), "TL101", "")
    assert finding.fix is not None
    assert "Only every 50th step is logged" in finding.fix.note
    assert any("% 50" in each.text for each in finding.fix.edits)


SHOWN = """\
import torch
from torch import nn
from tqdm import tqdm

model = nn.Linear(8, 2).cuda()


@torch.no_grad()
def validate(batches):
    total, seen = 0.0, 0
    bar = tqdm(batches)
    for x in bar:
        loss = model(x.cuda()).square().mean()
        seen += 1
        {line}
    return total


print(validate(torch.load("batches")))
"""


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("bar.set_postfix(loss=loss.item())", "for bar.set_postfix; show it every N steps"),
        ("bar.set_description(f'{loss.item():.3f}')", "show it every N steps"),
        ("total += loss.item()", "read it once after the loop"),
        (
            "total += loss.item()\n        if seen % 100 == 0:\n            print(total / seen)",
            "keep the sum on the device, and read that only where it is used",
        ),
    ],
)
def test_the_remedy_of_a_read_fits_what_takes_the_number(line: str, remedy: str) -> None:
    (finding,) = found(SHOWN.format(line=line), "TL101", "loss.item()")
    assert remedy in finding.message


NOISED = """\
import torch
from torch import nn

model = nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
table = torch.linspace(0, 1, 100)


def noised(x, t, device):
    noise = torch.randn(x.shape)
    {mixed}
    return mixed.to(device), noise.to(device)


def train(batches):
    for x in batches:
        mixed, noise = noised(x, torch.tensor([3]), "cuda")
        (model(mixed) - noise[:, :2]).square().mean().backward()
        optimizer.step()


train([torch.ones(2, 8)])
"""


@pytest.mark.parametrize(
    ("mixed", "together"),
    [
        ("mixed = x + table[t] * noise", True),
        ("weight = table[t].reshape(1, 1)\n    mixed = x + noise * weight", True),
        ("mixed = x - noise", True),
        ("mixed = x\n    noise = noise * 0.5", False),
        ("mixed = x\n    noise = torch.ones(x.shape) * noise", False),
    ],
)
def test_what_the_host_computes_with_a_tensor_first_moves_with_it(
    mixed: str, together: bool
) -> None:
    findings = found(NOISED.format(mixed=mixed), "TL102", "torch.randn")
    told = ["the host computes with it" in each.message for each in findings]
    assert told == [together]
    assert all((each.severity is INFO) is together for each in findings)


DECODED = """\
import torch
from torch import nn


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.outer = nn.Linear(8, 8)

    def forward(self, x, steps):
        state = torch.zeros(x.shape[1], 8).to(x.device)
        {loop}
        return state


model = Cell().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in [torch.ones(5, 2, 8)]:
    model(x.cuda(), 5).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("loop", "level"),
    [
        ("for t in range(steps): state = torch.tanh(self.inner(x[t]) + self.outer(state))", INFO),
        (
            "t = 0\n        while t < steps:\n"
            "            state = torch.tanh(self.inner(x[t]) + self.outer(state))\n"
            "            t += 1",
            INFO,
        ),
        ("for t in range(steps): state = state + x[t].sigmoid() * x[t].tanh()", INFO),
        ("for t in range(3): state = torch.tanh(self.inner(x[t]) + self.outer(state))", WARNING),
        ("state = torch.tanh(self.inner(x[0]) + self.outer(state))", WARNING),
        ("for t in range(steps): state = state + x[t]", WARNING),
        (
            "if self.training:\n            for t in range(steps):\n"
            "                state = state + x[t].sigmoid() * x[t].tanh()",
            WARNING,
        ),
        (
            "if steps == 5:\n            return self.inner(x[0]) + state\n"
            "        for t in range(steps): state = state + x[t].sigmoid() * x[t].tanh()",
            WARNING,
        ),
        (
            "state = x[0] + state\n"
            "        if steps > 5: state = state * 2\n"
            "        for t in range(steps): state = state + x[t].sigmoid() * x[t].tanh()",
            INFO,
        ),
    ],
)
def test_a_tensor_made_before_a_loop_of_small_kernels(loop: str, level: Severity) -> None:
    (finding,) = found(DECODED.format(loop=loop), "TL102", "torch.zeros")
    assert finding.severity is level
    assert ("launches kernels one by one" in finding.message) is (level is INFO)


PADDED = """\
import torch
from torch import nn


class Padded(nn.Module):
    def forward(self, x):
        pad = torch.zeros(x.size(0), 8).to(x.device{given})
        return torch.cat([x, pad], dim=1)


padded = Padded()
for x in torch.load("batches"):
    padded(x.cuda()).sum()
"""


@pytest.mark.parametrize(
    ("given", "level"),
    [
        (", non_blocking=True", INFO),
        (", torch.float32, non_blocking=True", INFO),
        ("", WARNING),
    ],
)
def test_an_upload_that_nothing_waits_for(given: str, level: Severity) -> None:
    (finding,) = found(PADDED.format(given=given), "TL102", "torch.zeros")
    assert finding.severity is level
    assert ("nothing waits for a small copy" in finding.message) is (level is INFO)


MASKED = """\
import torch
from torch import nn

model = nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def penalty(out, target):
    mask = target > 0
    {check}
    {select}


def train(batches):
    for x, y in batches:
        loss = penalty(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()


train([(torch.ones(2, 8), torch.ones(2, 2))])
"""
ASKED = "if mask.sum() == 0: return out.sum() * 0"


@pytest.mark.parametrize(
    ("check_", "select", "level"),
    [
        (ASKED, "return (out[mask] - target[mask]).square().mean()", INFO),
        (ASKED, "return torch.masked_select(out, mask).mean()", INFO),
        ("if not mask.any(): return out.sum() * 0", "return out[mask].mean()", INFO),
        (ASKED, "return (out * mask).sum() / mask.sum()", WARNING),
        (ASKED, "return torch.where(mask, out, 0 * out).mean()", WARNING),
    ],
)
def test_a_test_of_a_mask_that_selects_on_the_next_line(
    check_: str, select: str, level: Severity
) -> None:
    (finding,) = found(MASKED.format(check=check_, select=select), "TL602", "")
    assert finding.severity is level


GIVEN_MASK = """\
import torch
from torch import nn

model = nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


class Penalty(nn.Module):
    def forward(self, out, kept):
        {body}


penalty = Penalty()


def train(batches):
    for x, kept in batches:
        loss = penalty(model(x.cuda()), kept.cuda())
        loss.backward()
        optimizer.step()


train(torch.load("batches"))
"""


@pytest.mark.parametrize(
    ("body", "level"),
    [
        ("if not kept.any(): return out.sum() * 0\n        return out[kept].mean()", INFO),
        ("return (out[kept] if kept.any() else out).mean()", INFO),
        ("if kept.any():\n            out = out[kept]\n        return out.mean()", INFO),
        ("if not kept.any(): return out.sum() * 0\n        return (out * kept).mean()", WARNING),
        ("if not kept.sum(): return out.sum() * 0\n        return out[kept].mean()", WARNING),
        ("return (out[0] if kept.any() else out).mean()", WARNING),
    ],
)
def test_what_is_asked_whether_any_is_true_selects_as_a_mask(body: str, level: Severity) -> None:
    (finding,) = found(GIVEN_MASK.format(body=body), "TL602", "")
    assert finding.severity is level


SAMPLED = """\
import torch
from torch import nn

model = nn.Linear(1, 2).cuda()


def denoise(x, t, table):
    {inside}


@torch.no_grad()
def sample(steps, table):
    x = torch.zeros(1, 2).cuda()
    for i in range(steps):
        t = torch.full((1, 1), i, dtype=torch.float32)
        t = t.to("cuda")
        x = denoise(x + model(t), t, table)
    return x


print(sample(1000, torch.linspace(0, 1, 1000)).cpu())
"""


@pytest.mark.parametrize(
    ("inside", "level"),
    [
        ("return x.cpu().cuda() + 1", INFO),
        ("return x * float(x.sum().item())", INFO),
        ("if table is None: print(x.sum().item())\n    return x + t", WARNING),
        ("return x + t", WARNING),
    ],
)
def test_a_number_copied_beside_a_function_that_reads_the_device(
    inside: str, level: Severity
) -> None:
    (finding,) = found(SAMPLED.format(inside=inside), "TL102", "torch.full")
    assert finding.severity is level
    assert ("`denoise(x + model(t), t, table)` waits" in finding.message) is (level is INFO)


RECORDED = """\
import torch
from torch import nn

model = nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def validate(batches):
    model.eval()
    total = 0.0
    {guard}
        for x in batches:
            total += model(x.cuda()).square().mean().item()
    return total


print(validate(torch.load("batches")))
"""


@pytest.mark.parametrize(
    ("guard", "detached"), [("if True:", True), ("with torch.no_grad():", False)]
)
def test_what_an_evaluation_keeps_leaves_its_graph(guard: str, detached: bool) -> None:
    (finding,) = found(RECORDED.format(guard=guard), "TL101", "square().mean().item()")
    assert ("detached from its graph" in finding.message) is detached


SHOWN_OFTEN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

model = nn.Linear(8, 2).cuda()
loader = DataLoader(torch.load("data"), batch_size=1)


def show(picture, batches):
    with torch.no_grad():
        {line}


for x in loader:
    show(x, loader)
"""


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("for k in range(5): print(model(picture.to('cuda') + k).shape)", 0),
        ("for k in range(5): print(model(picture.unsqueeze(0).to('cuda') + k).shape)", 0),
        ("for k in range(5): print(model(picture[0].to('cuda') + k).shape)", 0),
        ("for b in batches: print(model(b.to('cuda')).shape)", 1),
        (
            "for b in batches:\n            for k in range(5): print(model(b.to('cuda')).shape)",
            1,
        ),
    ],
)
def test_what_each_iteration_copies_alike_is_no_batch(line: str, count: int) -> None:
    source = SHOWN_OFTEN.format(line=line).replace("batch_size=1)", "batch_size=1, num_workers=2)")
    assert len(found(source, "TL103", "")) == count


LOADED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

model = nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


class Rows(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        {fetch}


for x in DataLoader(Rows(torch.load("rows")), batch_size=16):
    model(x.to("cuda")).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("fetch", "count"),
    [
        ("return self.rows[index]", 0),
        ("return torch.tensor(self.rows[index : index + 7])", 0),
        ("return torch.load(self.rows[index])", 1),
        ("return read_image(self.rows[index])", 1),
    ],
)
def test_workers_are_no_advice_for_rows_of_memory(fetch: str, count: int) -> None:
    source = LOADED.format(fetch=fetch)
    source = source.replace(
        "import torch\n", "import torch\nfrom torchvision.io import read_image\n", 1
    )
    assert len(found(source, "TL103", "workers")) == count


WRAPPED = """\
import torch
from torch import nn


def wrapped(model, distributed):
    if distributed:
        {first}
    else:
        model = nn.DataParallel(model)
    return model


model = wrapped(nn.Linear(8, 2).cuda(), torch.distributed.is_initialized())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.load("batches"):
    model(x.cuda()).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("first", "level"),
    [
        ("model = nn.parallel.DistributedDataParallel(model)", INFO),
        ("model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0])", INFO),
        ("torch.distributed.barrier()", WARNING),
    ],
)
def test_data_parallel_beside_the_branch_of_its_successor(first: str, level: Severity) -> None:
    (finding,) = found(WRAPPED.format(first=first), "TL301", "nn.DataParallel")
    assert finding.severity is level
    assert ("take the branch" in finding.message) is (level is INFO)


TRIED = """\
import torch
from torch import nn

net = nn.Sequential(nn.Linear(8, 4), nn.ReLU()){moved}
if __name__ == "__main__":
    x = {made}
    out = net(x)
    print(out.shape, out.mean().item())
"""


@pytest.mark.parametrize(
    ("moved", "made", "level"),
    [
        ("", "torch.randn(2, 8)", INFO),
        ("", "torch.ones(2, 8, device='cpu')", INFO),
        (".cuda()", "torch.randn(2, 8).cuda()", WARNING),
    ],
)
def test_a_graph_that_the_host_records(moved: str, made: str, level: Severity) -> None:
    for finding in found(TRIED.format(moved=moved, made=made), "TL501", ""):
        assert finding.severity is level


TAKEN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision.datasets import CIFAR10
from torchvision.transforms import ToTensor

model = nn.Linear(8, 2).cuda()
loader = DataLoader(CIFAR10("data", transform=ToTensor()), shuffle=True)
{use}
"""


@pytest.mark.parametrize(
    ("use", "count"),
    [
        ("while len(model.weight) < 9: x, y = next(iter(loader))", 0),
        ("x, y = next(iter(loader))\nprint(model(x.cuda()))", 0),
        ("rows = [next(iter(loader))[0] for _ in range(5)]", 0),
        ("x, y = next(iter(loader))\nfor x, y in loader: print(model(x.cuda()))", 1),
        ("batches = iter(loader)\nx, y = next(batches)\nprint(model(x.cuda()))", 0),
        ("it = iter(loader)\nnext(it)\nfor x, y in it: print(model(x.cuda()))", 1),
        ("it = iter(loader)\nfit(model, it)", 1),
        ("batches = iter(loader)\nwhile True: print(model(next(batches)[0].cuda()))", 1),
    ],
)
def test_workers_are_no_advice_for_one_batch(use: str, count: int) -> None:
    assert len(found(TAKEN.format(use=use), "TL201", "")) == count


METRIC = """\
import torch
from {package} import Metric


class Score(Metric):
    def {method}(self, x):
        self.total += self.of(x)

    def of(self, x):
        return self.net(x.cuda()).square().mean()
"""


@pytest.mark.parametrize(
    ("package", "method", "off"),
    [
        ("torchmetrics", "update", True),
        ("torchmetrics.metric", "update", True),
        ("torchmetrics", "add", False),
        ("scores", "update", False),
    ],
)
def test_a_metric_of_torchmetrics_is_updated_without_gradients(
    tmp_path: Path, package: str, method: str, off: bool
) -> None:
    files = {"score.py": METRIC.format(package=package, method=method)}
    module = analysed(tmp_path, files, "score.py")
    calls = [e for e in module.nodes(cst.Call) if module.shown(e).endswith(".mean()")]
    assert [bool(no_grad(module, each)) for each in calls] == [off]


HANDED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

model = nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def loaders(parts):
    return {{key: DataLoader(part, batch_size=4{settings}) for key, part in parts.items()}}


def train(loader):
    for x in loader:
        model(x.to("cuda")).mean().backward()
        optimizer.step()


def validate(loader):
    with torch.no_grad():
        for y in loader:
            print(model(y.to("cuda")).shape)
"""


@pytest.mark.parametrize(
    ("settings", "trains", "evaluates"),
    [
        ("", "give the DataLoader workers", None),
        (", shuffle=True", "give the DataLoader workers", None),
        (", num_workers=4", "pass non_blocking=True (and", "pass non_blocking=True (and"),
        (", pin_memory=True", "pass non_blocking=True (and", "pass non_blocking=True (and"),
    ],
)
def test_copies_of_a_project_whose_loaders_have_no_workers(
    settings: str, trains: str, evaluates: str | None
) -> None:
    findings = found(HANDED.format(settings=settings), "TL103", "")
    told = {each.start.row: each.message for each in findings}
    assert trains in told[15]
    assert (evaluates in told[22]) if evaluates is not None else 22 not in told


LABELLED = """\
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

model = nn.Linear(8, 2).cuda()


@torch.no_grad()
def label(x, kept):
    out = model(x.cuda())
    {line}


for x in torch.load("batches"):
    label(x, [])
"""


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("return np.argmax(np.random.permutation(F.softmax(out.cpu(), 1).numpy()), 1)", 0),
        ("p = F.softmax(out.cpu(), 1).numpy()\n    return np.convolve(p[0], p[1])", 0),
        ("kept.append(F.softmax(out.cpu(), 1))", 1),
        ("kept.append(out.cpu())", 1),
    ],
)
def test_a_copy_that_leaves_torch_by_a_function_of_torch(line: str, count: int) -> None:
    findings = found(LABELLED.format(line=line), "TL113", "once after the loop")
    assert len(findings) == count


BIASED = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())

    def forward(self, x):
        return self.body(x)


net = Net().cuda()
{load}
"""


@pytest.mark.parametrize(
    ("load", "told"),
    [
        ("net.load_state_dict(torch.load('net.pt'))", True),
        ("net = Lit.load_from_checkpoint('net.ckpt')", True),
        ("state = torch.load('net.pt')\nnet.load_state_dict(state['model'])", True),
        ("torch.save(net.state_dict(), 'net.pt')", False),
        ("print(net)", False),
    ],
)
def test_weights_that_were_saved_have_the_bias(load: str, told: bool) -> None:
    (finding,) = found(BIASED.format(load=load), "TL409", "Conv2d bias")
    assert ("lose it, and the norm's running_mean as much" in finding.message) is told


def test_a_norm_of_each_sample_keeps_no_mean_of_a_bias() -> None:
    source = BIASED.format(load="net.load_state_dict(torch.load('net.pt'))")
    (finding,) = found(source.replace("BatchNorm2d", "InstanceNorm2d"), "TL409", "Conv2d bias")
    assert finding.message.endswith("Weights saved with the bias then have to lose it.")


LABELS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

model = nn.Linear(8, 2).cuda()


@torch.no_grad()
def validate(data):
    seen, kept, hits = [], [], 0
    for x, labels in DataLoader(data, batch_size=4, num_workers=2):
        labels = labels.to("cuda")
        out = model(x.to("cuda", non_blocking=True))
        kept.append(out)
        {use}
    return seen, kept, hits


validate(torch.load("data"))
"""


@pytest.mark.parametrize(
    ("use", "count"),
    [
        ("seen.extend(labels.detach().cpu().numpy())", 0),
        ("seen.append(labels.cpu())", 0),
        ("seen += labels.tolist()", 0),
        ("hits += (out.argmax(1) == labels).sum()", 1),
        ("seen.append(labels.cpu())\n        hits += (out.argmax(1) == labels).sum()", 1),
    ],
)
def test_labels_that_the_device_never_uses(use: str, count: int) -> None:
    (finding,) = found(LABELS.format(use=use), "TL103", "")
    assert ("only copied back" in finding.message) is (not count)


SCORED = """\
import torchmetrics
from lightning import LightningModule
from torch import nn


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(3, 1)
        self.test_loss = torchmetrics.MeanMetric()

    def test_step(self, batch, index):
        loss = self.net(batch).mean()
        self.test_loss(loss)
        {line}
        return loss
"""


@pytest.mark.parametrize(
    ("line", "other", "read"),
    [
        ("self.log('test/loss', loss)", "", False),
        ("self.test_loss.reset()", "net = Net()", False),
        ("pass", "from net import Net\nNet().losses.compute()", False),
        ("self.log('test/loss', self.test_loss, on_step=False)", "", True),
        ("best = self.test_loss.compute()", "", True),
        ("self.kept = [self.test_loss]", "", True),
        ("pass", "from net import Net\nNet().test_loss.compute()", True),
        ("return getattr(self, f'{index}_loss')", "", True),
    ],
)
def test_a_metric_that_nothing_reads_is_deleted(
    tmp_path: Path, line: str, other: str, read: bool
) -> None:
    text = SCORED.format(line=line)
    (tmp_path / "net.py").write_text(text)
    (tmp_path / "run.py").write_text(other)
    forget()
    done = job(text, name="net.py", root=str(tmp_path), codes=frozenset(("TL906",)), fix="unsafe")
    report = analyse_job(done)
    assert ("self.test_loss(loss)" in report.after) is False
    assert ("self.test_loss.update(loss)" in report.after) is read


SIZED = """\
import torch


def compute(model, loader, ignored):
    device = torch.device("cuda")
    model = model.to(device).eval()
    correct = 0
    with torch.no_grad():
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            best = model(x).argmax(-1)
            kept = {mask}
            {taken}
            correct += (best == y).sum().item()
    return correct
"""
SELECTS = "best, y = best[kept], y[kept]"


@pytest.mark.parametrize(
    ("mask", "taken", "safe"),
    [
        ("y != ignored", SELECTS, False),
        ("torch.not_equal(y, ignored)", SELECTS, False),
        ("torch.greater_equal(y, 0)", SELECTS, False),
        ("torch.less(y, ignored)", SELECTS, False),
        ("torch.not_equal(y, ignored)", "y = torch.where(kept, y, -1)", True),
        ("torch.clamp(y, 0, 9)", "best = best * kept", True),
    ],
)
def test_a_read_beside_a_mask_that_sizes_what_it_takes_gains_little(
    mask: str, taken: str, safe: bool
) -> None:
    each = found(SIZED.format(mask=mask, taken=taken), "TL101", "(best == y).sum().item()")
    assert [e.fix is not None and e.fix.safety is Safety.SAFE for e in each] == [safe]


FEW_PASSES = """\
import torch
from data import X

model = torch.nn.Linear(3, 3).cuda()
model.load_state_dict(torch.load("m"))
{0}
"""


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("for i in range(4):\n    print(model(X[i].cuda()).argmax())", False),
        ("for i in [3, 5, 8]:\n    print(model(X[i].cuda()).argmax())", False),
        ("for i in range(2):\n    for j in range(3):\n        print(model(X[i, j].cuda()))", False),
        # Often, nobody knows how often, in a function that others may call, or beside training.
        ("for i in range(400):\n    print(model(X[i].cuda()).argmax())", True),
        ("for x in X:\n    for i in range(4):\n        print(model(x.cuda() + i))", True),
        (
            "def show():\n    for i in range(4):\n        print(model(X[i].cuda()))\n\n\nshow()",
            True,
        ),
    ],
)
def test_a_graph_of_a_few_passes_of_a_script(lines: str, said: bool) -> None:
    assert bool(found(FEW_PASSES.format(lines), "TL501", "")) is said


LONG_ITERATIONS = """\
import gc
import torch
from torch import nn
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("m").cuda()
net = nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def answer(prompt):
    return model.generate(prompt.cuda(), max_new_tokens=64)


def step(x):
    loss = net(x.cuda()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


for x in torch.load("batches"):
    step(x)
    {work}
    torch.cuda.empty_cache()
    gc.collect()
"""


@pytest.mark.parametrize(
    ("work", "level"),
    [
        ("out = model.generate(x.cuda())", INFO),
        ("out = answer(x)", INFO),
        ("for t in torch.load('times'):\n        x = net(x.cuda())", INFO),
        ("out = model.eval()", WARNING),
        ("for t in torch.load('times'):\n        print(t)", WARNING),
        ("out = [answer for _ in range(3)]", WARNING),
    ],
)
def test_memory_given_back_once_in_a_long_iteration(work: str, level: Severity) -> None:
    for code in ("TL701", "TL702"):
        (finding,) = found(LONG_ITERATIONS.format(work=work), code, "")
        assert finding.severity is level
        assert ("so little is gained" in finding.message) is (level is INFO)


ATTACKED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

device = torch.device("cuda")
llm = AutoModelForCausalLM.from_pretrained("m").to(device)
net = nn.Linear(8, 2).to(device)


def rewrite(x):
    return llm.generate(x, max_new_tokens=64)


def attack(x, y):
    x = x.clone().requires_grad_(True)
    for i in range(500):
        out = net(x)
        {inner}
        nn.functional.cross_entropy(out, y).backward()
    return x


def run(dataset):
    changed = 0.0
    for x, y in DataLoader(dataset, batch_size=4, num_workers=2, pin_memory=True):
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        {call}
        with torch.no_grad():
            changed += (net(x).argmax(1) != y).sum().item()
    return changed


run(torch.load("data"))
"""


@pytest.mark.parametrize(
    ("inner", "call", "level"),
    [
        ("if (out.argmax(1) != y).all(): break", "x = attack(x, y)", INFO),
        ("print(out.mean().item())", "x = attack(x, y)", INFO),
        ("pass", "out = rewrite(x)", INFO),
        ("pass", "out = llm.generate(inputs=x, attention_mask=x > 0)", INFO),
        ("if i > 90: break", "x = attack(x, y)", WARNING),
        ("if (out.argmax(1) != y).all(): break", "x = attack if i else x", WARNING),
        ("pass", "out = rewrite", WARNING),
        ("pass", "out = dataset.generate('train')", WARNING),
    ],
)
def test_a_read_beside_a_loop_that_waits_in_each_run(
    inner: str, call: str, level: Severity
) -> None:
    (finding,) = found(ATTACKED.format(inner=inner, call=call), "TL101", "changed")[:1] or found(
        ATTACKED.format(inner=inner, call=call), "TL101", "(net(x)"
    )
    assert finding.severity is level


TIMED = """\
import time
import torch
from torch import nn
from torch.utils.data import DataLoader

device = torch.device("cuda")
model = nn.Linear(8, 2).to(device)


@torch.no_grad()
def run(dataset):
    found, times = [], []
    for x, y in DataLoader(dataset, batch_size=4, num_workers=2, pin_memory=True):
        x, y = x.to(device), y.to(device)
        {before}
        start = time.time()
        out = model(x).argmax(1)
        {after}
        times.append({clock} - start)
        found.extend(out.cpu().numpy())
        found.extend(y.cpu().numpy())
    return found, times


run(torch.load("data"))
"""
SYNC = "torch.cuda.synchronize()"


@pytest.mark.parametrize(
    ("before", "after", "clock", "count"),
    [
        (SYNC, SYNC, "time.time()", 0),
        ("pass", SYNC, "time.perf_counter()", 0),
        (
            f"if device.type == 'cuda': {SYNC}",
            f"if device.type == 'cuda': {SYNC}",
            "time.time()",
            0,
        ),
        ("pass", "pass", "time.time()", 1),
        ("pass", "torch.cuda.is_available()", "time.time()", 1),
    ],
)
def test_copies_of_batches_that_are_timed(before: str, after: str, clock: str, count: int) -> None:
    text = TIMED.format(before=before, after=after, clock=clock)
    assert len(found(text, "TL113", "out.cpu()")) == count
    (again,) = found(text, "TL113", "y.cpu()")
    assert ("does not run ahead" in again.message) is (count > 0)


FILLED_IN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

device = torch.device("cuda")
model = nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def penalty(out, y, targets=None):
    if targets is None:
        print(out.mean().item())
        targets = y
    return (out - targets).square().mean()


def train(loader, chosen=None):
    for x, y in loader:
        out = model(x.to(device))
        {fill}
        loss = penalty(out, y.to(device){given})
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


print(penalty(model(torch.ones(2, 8).to(device)), torch.ones(2, 2).to(device)))
train(DataLoader(torch.load("data"), batch_size=4))
"""
FILL = "if chosen is None:\n            chosen = torch.zeros_like(out)"


@pytest.mark.parametrize(
    ("fill", "given", "count"),
    [
        (FILL, ", chosen", 0),
        ("other = torch.ones(2)", ", other", 0),
        ("other = out.abs()", ", targets=other", 0),
        (FILL, "", 1),
        ("if x.shape[0] > 2:\n            chosen = torch.zeros_like(out)", ", chosen", 1),
        ("if chosen is None:\n            chosen = torch.load('x')", ", chosen.get('y')", 1),
    ],
)
def test_what_is_done_where_nothing_is_given(fill: str, given: str, count: int) -> None:
    text = FILLED_IN.format(fill=fill, given=given)
    assert len(found(text, "TL105", "out.mean()")) == count


NOTHING_THERE = """\
import torch
from torch import nn

model = nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


class Contrast(nn.Module):
    def forward(self, out, mask):
        near, far = out[mask > 0], out[mask < 0]
        if {test}:
            {first}
        else:
            {second}


def train(batches):
    for x, y in batches:
        loss = Contrast()(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()


train(torch.load("batches"))
"""
COMPUTES = "return near.mean() - far.mean()"
GIVES_ZERO = "return torch.tensor(0.0, device=out.device)"


@pytest.mark.parametrize(
    ("test", "swapped", "count"),
    [
        ("len(near) > 0 and len(far) > 0", False, 0),
        ("near.numel() > 0 and far.numel() > 0", False, 0),
        ("len(near) == 0 or len(far) == 0", True, 0),
        ("not (len(near) and len(far))", True, 0),
        ("len(near) > 0 or self.training", False, 1),
        ("len(near) == 0 and self.training", False, 1),
        ("len(near) > 0 and len(far) > 0", True, 1),
    ],
)
def test_a_zero_where_one_of_two_things_is_missing(test: str, swapped: bool, count: int) -> None:
    sides = (GIVES_ZERO, COMPUTES) if swapped else (COMPUTES, GIVES_ZERO)
    text = NOTHING_THERE.format(test=test, first=sides[0], second=sides[1])
    assert len(found(text, "TL112", "")) == count


TASKS = """\
import torch
from torch import nn

device = torch.device("cuda")


class Task:
    def __init__(self, agent):
        self.agent = agent
        self.net = nn.Linear(8, 2).to(device)

    def train_step(self, batch):
        {body}
        return self.net(self.inputs.to(device)).mean().item()
"""


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("metrics = self.agent.train_epoch()", 0),
        ("rows = [0]\n        for _ in range(9):\n            self.agent.train_one_batch()", 0),
        ("for x in batch:\n            self.agent.train_step(x)", 0),
        ("metrics = self.agent.epoch()", 1),
        ("self.agent.train_one_batch()", 1),
        ("for x in batch:\n            self.agent.train(x)", 1),
    ],
)
def test_a_step_by_name_that_runs_many(body: str, count: int) -> None:
    assert len(found(TASKS.format(body=body), "TL101", "")) == count


REFUSED = """\
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

device = torch.device("cuda")
model = nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


class Pictures(Dataset):
    def __len__(self):
        return 9

    def __getitem__(self, index):
        return torch.tensor(list(Image.open(f"{{index}}.png").getdata()))


def train(loader):
    for x in loader:
        model(x.to(device)).sum().backward()
        optimizer.step()


@torch.no_grad()
def evaluate(loader):
    for x in loader:
        model(x.to(device))


if __name__ == "__main__":
    train(DataLoader(Pictures(), shuffle=True, num_workers=0))
    evaluate(DataLoader(Pictures(){none}))
    evaluate(
        DataLoader(
            Pictures(),
            num_workers=0,  {comment}
        )
    )
"""


@pytest.mark.parametrize(
    ("none", "comment", "count"),
    [
        (", num_workers=0", "# Important for Windows stability", 1),
        (", num_workers=0", "# avoids memory spikes of Windows workers", 1),
        (", num_workers=0", "# multiprocessing deadlocks with the lock of the file", 1),
        ("", "# Important for Windows stability", 2),
        (", num_workers=0", "# the default", 3),
    ],
)
def test_a_reason_for_no_workers_holds_for_evaluations(none: str, comment: str, count: int) -> None:
    assert len(found(REFUSED.format(none=none, comment=comment), "TL201", "")) == count


COPIED_AGAIN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

device = torch.device("cuda")
model = nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def fit(loader):
    batches = iter(loader)
    for i in range(1000):
        try:
            x, y = next(batches)
        except StopIteration:
            batches = iter(loader)
            x, y = next(batches)
        x = x.to(device, non_blocking=True)
        y = y.to(device)
        loss = {loss}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


fit(DataLoader(torch.load("data"), batch_size=4, num_workers=2, pin_memory=True))
"""


@pytest.mark.parametrize(
    ("loss", "unread"),
    [
        ("model(x).square().mean()", True),
        ("model(x).square().mean() * len(x)", True),
        ("(model(x) - y).square().mean()", False),
        ("model(x).mean() if y is None else model(y).mean()", False),
    ],
)
def test_what_only_its_own_copy_reads_is_not_needed_there(loss: str, unread: bool) -> None:
    (finding,) = found(COPIED_AGAIN.format(loss=loss), "TL103", "")
    assert ("never used there" in finding.message) is unread


SAMPLED_ONCE = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

device = torch.device("cuda")
model = nn.Linear(8, 8).to(device)


def sample(x, steps):
    for t in range(steps):
        x = x - {work}
    return x


@torch.no_grad()
def run(dataset):
    sounds = []
    for x in DataLoader(dataset, batch_size=4, num_workers=2, pin_memory=True):
        x = x.to(device, non_blocking=True)
        {made}
        sounds.append(out.cpu().numpy())
    return sounds


run(torch.load("data"))
"""


@pytest.mark.parametrize(
    ("work", "made", "count"),
    [
        ("model(x)", "out = sample(x, 50)", 0),
        ("model(x) / steps", "out = model(x) + sample(x, 50)", 0),
        ("model(x)", "for t in range(50):\n            x = model(x)\n        out = x", 0),
        ("x / steps", "out = model(x)", 1),
        ("model(x)", "out = model(x)", 1),
        ("x / steps", "out = model(sample(x, 50))", 1),
    ],
)
def test_a_copy_of_what_many_runs_have_made(work: str, made: str, count: int) -> None:
    assert len(found(SAMPLED_ONCE.format(work=work, made=made), "TL113", "out.cpu()")) == count


WRITTEN = """\
import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

device = torch.device("cuda")
model = nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
writer = SummaryWriter()


def show(writer, loss, step):
    {body}


def fit(loader):
    for step, x in enumerate(loader):
        loss = model(x.to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        show(writer, loss.item(), step)


fit(torch.load("data"))
"""


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("writer.add_scalar('loss', loss, step)", "TL105"),
        ('"""Show the loss."""\n    print(step, loss)', "TL105"),
        ("writer.add_scalar('loss', loss, step)\n    print(f'{loss:.3f}')", "TL105"),
        ("writer.add_scalar('loss', loss, step)\n    return loss", "TL101"),
        ("writer.kept.append(loss)", "TL101"),
        ("if loss > 3: print(loss)", "TL101"),
    ],
)
def test_a_function_that_only_logs_what_it_is_given(body: str, code: str) -> None:
    both = {
        each: found(WRITTEN.format(body=body), each, "loss.item()") for each in ("TL101", "TL105")
    }
    assert [each for each, findings in both.items() if findings] == [code]


SELDOM_USED = """\
import torch
from torch import nn

device = torch.device("cuda")
model = nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def fit(loader, every):
    for step, x in enumerate(loader):
        out = model(x.to(device))
        loss = out.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        kept = {read}
        {use}


fit(torch.load("data"), 100)
"""


@pytest.mark.parametrize(
    ("read", "use", "told"),
    [
        ("loss.detach().cpu().numpy()", "if step % every == 0: print(f'{kept:.2f}')", True),
        ("out.mean().detach().cpu()", "if step % 50 == 0: print(kept)", True),
        ("out.std().detach().cpu().numpy()", "if not step % every: print(kept)", True),
        ("out.detach().cpu()", "torch.save(kept, f'{step}.pt')", False),
        ("loss.detach().cpu().numpy()", "print(f'{kept:.2f}')", False),
        ("out.detach().cpu()", "if every > 3: print(kept)", False),
    ],
)
def test_a_copy_that_is_used_now_and_then_alone(read: str, use: str, told: bool) -> None:
    findings = found(SELDOM_USED.format(read=read, use=use), "TL113", "")
    assert any("is used only where `" in each.message for each in findings) is told


SHAPED = """\
import torch
from torch import nn


class Shape(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("width", torch.as_tensor(width))

    def forward(self, x):
        if self.width > 0:
            return (x / self.width).abs()
        return x


class Projection(nn.Module):
    def __init__(self, width):
        super().__init__()
        {made}
        {kept}

    def forward(self, x):
        return self.matrix @ x


if __name__ == "__main__":
    net = Projection(2.0).cuda()
    for x in torch.load("data"):
        net(x.cuda())
"""
BUILDS = "self.matrix = nn.Parameter(torch.outer(profile(points), points))"


@pytest.mark.parametrize(
    ("made", "kept", "count"),
    [
        ("points, profile = torch.ones(9), 1\n        profile = Shape(width)", BUILDS, 1),
        ("points = torch.ones(9)\n        profile = Shape(width)\n        rows = profile(points)",
         "self.matrix = nn.Parameter(torch.outer(rows, points))", 0),
        ("profile = Shape(width)\n        made = [profile(torch.ones(9))]",
         "self.matrix = nn.Parameter(torch.stack(made))", 0),
        ("profile = Shape(width)\n        matrix = profile(torch.ones(9))",
         "self.matrix = nn.Parameter(matrix)", 0),
        ("profile = Shape(width)", "self.profile = profile", 1),
        ("self.profile = Shape(width)", "self.matrix = None", 1),
        ("profile = Shape(width)", "self.nets = nn.ModuleList([profile])", 1),
    ],
)  # fmt: skip
def test_a_forward_pass_while_another_object_is_constructed(
    made: str, kept: str, count: int
) -> None:
    assert len(found(SHAPED.format(made=made, kept=kept), "TL602", "")) == count


COUNTED_BY = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

device = torch.device("cuda")
model = nn.Linear(8, 2).to(device)


def counts(found, labels):
    right = [0] * 10
    for {loop}:
        own = {own}
        right[{index}] += 1
    return right


@torch.no_grad()
def run(dataset):
    for x, y in DataLoader(dataset, batch_size=4, num_workers=2, pin_memory=True):
        print(counts(model(x.to(device)).argmax(1), y.to(device)))


run(torch.load("data"))
"""


@pytest.mark.parametrize(
    ("loop", "own", "index", "older"),
    [
        ("one in found", "0", "one", True),
        ("one, two in zip(found, labels)", "0", "one", True),
        ("i, one in enumerate(labels)", "0", "one", True),
        ("one, two in zip(found, labels)", "two", "own", True),
        ("one, two in zip(found, labels)", "0", "one + two", False),
        ("one in found", "one + 1", "own", False),
    ],
)
def test_elements_by_which_a_list_is_indexed(loop: str, own: str, index: str, older: bool) -> None:
    text = COUNTED_BY.format(loop=loop, own=own, index=index)
    (read,) = found(text, "TL101", "right[")
    assert ("made before the loop" in read.message) is older


INDEXED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

device = torch.device("cuda")
model = nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def fit(data, rows, loader):
    for {loop}:
        {take}
        loss = model(x.to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def loader_of(data):
    return DataLoader(data, batch_size=4, num_workers=2, pin_memory=True)
"""


@pytest.mark.parametrize(
    ("loop", "take", "count"),
    [
        ("i in range(len(data))", "x, y = data[i]", 0),
        ("i in random.sample(range(len(data)), min(64, len(data)))", "x, y = data[i]", 0),
        ("at in torch.randperm(len(rows)).tolist()", "x = rows[at]", 0),
        ("x, y in loader", "pass", 1),
        ("i, batch in enumerate(loader)", "x = batch[0]", 1),
        ("x in loader", "y = data[len(data) - 1]", 1),
    ],
)
def test_samples_that_a_loop_takes_by_their_place(loop: str, take: str, count: int) -> None:
    assert len(found(INDEXED.format(loop=loop, take=take), "TL103", "")) == count


LENGTHS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

device = torch.device("cuda")
model = nn.Linear(8, 5).to(device)
criterion = nn.CTCLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def fit(dataset):
    for x, y, n, m in DataLoader(dataset, batch_size=4, num_workers=2, pin_memory=True):
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        n = n.to(device)
        loss = {loss}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("loss", "back"),
    [
        ("criterion(model(x), y, n, m)", True),
        ("criterion(model(x), y, input_lengths=n, target_lengths=m)", True),
        ("nn.functional.ctc_loss(model(x), y, n, m)", True),
        ("criterion(model(x), n, m, m)", False),
        ("criterion(model(x), y, m, m) + n.sum()", False),
        ("nn.functional.cross_entropy(model(x), y) * n", False),
    ],
)
def test_lengths_of_a_ctc_loss_stay_on_the_host(loss: str, back: bool) -> None:
    (finding,) = found(LENGTHS.format(loss=loss), "TL103", "")
    assert ("only copied back" in finding.message) is back


ON_A_BAR = """\
import numpy as np
import torch
from torch import nn
from tqdm import tqdm

net = nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
losses = []
bar = tqdm(torch.load("batches"))
for x in bar:
    loss = net(x.cuda()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {shows}
"""


@pytest.mark.parametrize(
    ("code", "read"),
    [("TL101", "losses.append(loss.item())"), ("TL113", "losses.append(loss.cpu().numpy())")],
)
def test_what_a_progress_bar_shows_is_a_hint(code: str, read: str) -> None:
    for shows, level in (
        ("bar.set_postfix_str(f'{np.mean(losses):.2f}')", INFO),
        ("print(f'{np.mean(losses):.2f}')", WARNING),
    ):
        (finding,) = found(
            ON_A_BAR.format(shows=f"{read}\n    {shows}"), code, "uses it right away"
        )
        assert finding.severity is level


@pytest.mark.parametrize(
    ("shows", "level"),
    [
        ("bar.set_postfix(loss=loss.item())", INFO),
        ("bar.set_description(f'{loss:.3f}')", INFO),
        ("bar.set_postfix(loss=loss)", INFO),
        ("print(loss.item())", WARNING),
        ("bar.write(f'{loss:.3f}')", WARNING),
    ],
)
def test_a_redrawn_bar_is_a_hint(shows: str, level: Severity) -> None:
    assert {each.severity for each in found(ON_A_BAR.format(shows=shows), "TL105", "")} == {level}
