"""A remedy fits what becomes of the value, and one of several waits for the same work is enough to
say: the others are hints that name it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checking import check, job
from tests.semantic.test_values import value_of
from torchlint.base.finding import Finding, Severity
from torchlint.run.projects import forget
from torchlint.run.worker import analyse_job
from torchlint.semantic.values.value import CPU

INFO, WARNING = Severity.INFO, Severity.WARNING
GIVEN = """
def f(self, model, x, y):
    out = model(x)
    loss = {}
    loss.backward()
    probe(loss)
"""


@pytest.mark.parametrize(
    ("made", "device"),
    [
        ("self.loss(out.cpu(), y)", CPU),
        ("self.metrics.of(out.detach().cpu().view(-1), y, 0.5)", CPU),
        ("unknown(out.cpu())", CPU),
        ("self.loss(out, y)", None),
        ("self.loss(out.cpu(), out)", None),
        ("self.loss(out.cpu(), model)", None),
        ("self.loss(out.cpu(), y.cuda())", None),
        ("self.loss(y.cpu(), x)", None),
    ],
)
def test_what_is_computed_of_a_copied_output_is_on_the_host(made: str, device: str | None) -> None:
    assert value_of(GIVEN.format(made)).device == device


TRAINED = """\
import torch
from torch import nn

model = nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = []
Row = __import__("collections").namedtuple("Row", "x y")


def metric(out, y):
    return (out - y).abs().mean()


def train(batches, loss_of):
    total = 0.0
    for x, y in batches:
        out = model(x.cuda())
        {step}
        {more}
    return total


print(train(torch.load("batches"), torch.load("loss")))
"""
HOST = "out = out.cpu(); loss = {}; loss.backward(); optimizer.step()"
THERE = "loss = out.square().mean(); loss.backward(); optimizer.step()"


def found(source: str, code: str, part: str) -> list[Finding]:
    report = check(source, codes=frozenset({code}), name="train.py")
    return [
        each
        for each in report.findings
        if part in each.message.partition(" waits for the GPU in ")[0]
    ]


@pytest.mark.parametrize(
    ("step", "more", "user"),
    [
        (HOST.format("nn.functional.mse_loss(out, y)"), "pass", "nn.functional.mse_loss"),
        (HOST.format("loss_of(out, y)"), "pass", "loss_of"),
        (THERE, "copy = out.detach().cpu(); total = metric(copy, y)", "metric"),
        (THERE, "kept.append(metric(out.detach().cpu(), y))", ""),
        (THERE, "kept.append(out.detach().cpu())", ""),
        (THERE, "copy = out.detach().cpu(); kept.append(copy)", ""),
        (THERE, "total = metric(out.detach(), y.cuda()); out = out.detach().cpu()", ""),
    ],
)
def test_a_copy_that_the_step_computes_with(step: str, more: str, user: str) -> None:
    findings = found(TRAINED.format(step=step, more=more), "TL113", ".cpu()`")
    assert [each.severity for each in findings] == [WARNING]
    remedy = f"for `{user}`; compute that with torch on the GPU" if user else "once after the loop"
    assert remedy in findings[0].message


TAKEN = "for box, n in zip(boxes.tolist(), names): {}"


@pytest.mark.parametrize(
    ("more", "flagged"),
    [
        # Nothing is known of who takes it: it may be needed in this very step.
        ("copy = out.detach().cpu(); batches.push(copy)", False),
        ("copy = out.detach().cpu(); row = Row(copy, y); batches.push(row)", False),
        ("seen = batches.match(out.argmax(1).cpu().numpy(), total)", False),
        ("boxes = out.argmax(1); names = [0] * 9; " + TAKEN.format("batches.crop(box, n)"), False),
        ("total += load(out.detach().cpu())", False),
        # What NumPy does torch does as well, and what is kept is for later.
        ("seen = np.mean(out.argmax(1).cpu().numpy() == 1); kept.append(seen)", True),
        ("boxes = out.argmax(1); names = [0] * 9; total += sum(boxes.tolist())", True),
        ("kept.extend(out.argmax(1).cpu().numpy())", True),
        ("batches.note('out', out.argmax(1).cpu().numpy())", True),
    ],
)
def test_only_a_copy_of_which_the_use_is_known(more: str, flagged: bool) -> None:
    source = TRAINED.format(step=THERE, more="pass")
    body = "\n        ".join(more.split("; ")).replace(": batches", ":\n            batches")
    source = "import numpy as np\nfrom vision import load\n" + source.replace("pass", body)
    assert bool(found(source, "TL113", "")) is flagged


@pytest.mark.parametrize(
    ("more", "levels"),
    [
        ("kept.append(out.detach().cpu())", [WARNING]),
        ("total += loss.item(); kept.append(out.detach().cpu())", [INFO]),
        ("kept.append(out.detach().cpu()); kept.append(out.detach().abs().cpu())", [WARNING, INFO]),
        ("total += loss.item(); kept.append(model(x.cuda()).detach().cpu())", [WARNING]),
    ],
)
def test_one_of_several_copies_for_the_same_work(more: str, levels: list[Severity]) -> None:
    findings = found(TRAINED.format(step=THERE, more=more), "TL113", "")
    assert [each.severity for each in findings] == levels
    for each in findings:
        assert ("waits for the same work" in each.message) is (each.severity is INFO)


@pytest.mark.parametrize(
    ("more", "again"),
    [
        ("total += loss.item(); batches.append(loss.item() ** 0.5)", True),
        ("total += loss.item(); batches.append(loss.item())", True),
        ("total += loss.item(); batches.append(out.mean().item())", False),
        ("total += loss.item(); loss = loss * 2; batches.append(loss.item())", False),
    ],
)
def test_a_number_that_the_step_has_read_before(more: str, again: bool) -> None:
    source = TRAINED.format(step=THERE, more=more)
    findings = found(source, "TL101", "that the same step has read before")
    assert bool(findings) is again


METERS = """\
import torch
from torch import nn

model = nn.Linear(8, 2).cuda()


class AverageMeter:
    def update(self, value, n):
        self.sum += value * n


@torch.no_grad()
def validate(batches, losses, top1):
    for x, y in batches:
        out = model(x.cuda())
        loss = nn.functional.cross_entropy(out, y.cuda())
        acc = (out.argmax(1) == y.cuda()).float().mean()
        losses.update(loss.item(), x.size(0))
        {between}
        top1.update(acc.item(), x.size(0))


validate(torch.load("batches"), AverageMeter(), AverageMeter())
"""


@pytest.mark.parametrize(
    ("between", "level"), [("pass", INFO), ("acc = model(x.cuda()).mean()", WARNING)]
)
def test_meters_that_are_fed_together(between: str, level: Severity) -> None:
    (finding,) = found(METERS.format(between=between), "TL101", "`acc.item()`")
    assert finding.severity is level


COPIED = """\
import torch
from torch import nn

device = torch.device("cuda")
model = nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(batches):
    for x in batches:
        {copy}
        {between}
        y = {made}.to(device)
        loss = (model(x) * y).square().mean()
        loss.backward()
        optimizer.step()


train(torch.load("batches"))
"""


@pytest.mark.parametrize(
    ("copy", "between", "made", "level"),
    [
        ("x = x.to(device)", "pass", "torch.ones(4, 2, 3)", INFO),
        ("x = x.to(device)", "pass", "torch.zeros(4, 2, len(x), 3)", INFO),
        ("x = x.to(device)", "pass", "torch.full((4, 2, 3), 0.9)", INFO),
        ("x = x.to(device)", "pass", "torch.randn(4, 2, 3)", WARNING),
        ("x = x.to(device)", "model(x)", "torch.ones(4, 2, 3)", WARNING),
        ("x = x.to(device, non_blocking=True)", "pass", "torch.ones(4, 2, 3)", WARNING),
        ("pass", "pass", "torch.ones(4, 2, 3)", WARNING),
    ],
)
def test_a_constant_behind_a_copy_that_waits(
    copy: str, between: str, made: str, level: Severity
) -> None:
    source = COPIED.format(copy=copy, between=between, made=made)
    (finding,) = found(source, "TL102", made.partition("(")[0])
    assert finding.severity is level
    assert ("waits for the device as well" in finding.message) is (level is INFO)


INDEXED = """\
import torch
from torch import nn

model = nn.Linear(8, 2).cuda()


@torch.no_grad()
def decode(batches, state, chosen):
    for x in batches:
        out = model(x.cuda())
        kept = [at for at, each in enumerate(chosen) if each]
        first = out[kept]
        {between}
        second = {second}
        state.use(first, second)


decode(torch.load("batches"), torch.load("state"), torch.load("chosen"))
"""


@pytest.mark.parametrize(
    ("between", "second", "levels"),
    [
        ("pass", "(out * 2)[kept]", [WARNING, INFO]),
        ("pass", "out.abs()[kept, 0]", [WARNING, INFO]),
        ("out = model(out)", "out[kept]", [WARNING, WARNING]),
        ("pass", "out[0]", [WARNING]),
    ],
)
def test_indices_of_the_host_that_stand_together(
    between: str, second: str, levels: list[Severity]
) -> None:
    findings = found(INDEXED.format(between=between, second=second), "TL102", "the index")
    assert [each.severity for each in findings] == levels


CLIPPED = """\
import torch


def clip(parameters, most):
    norms = torch.stack([each.grad.norm() for each in parameters])
    total = norms.cuda().norm()
    {test}
        print(most)
    return total.item()


def train(model, optimizer, batches):
    seen = []
    for x in batches:
        model(x.cuda()).sum().backward()
        seen.append(clip(list(model.parameters()), 1.0))
        optimizer.step()
    return seen


train(torch.load("model").cuda(), torch.load("optimizer"), torch.load("batches"))
"""


@pytest.mark.parametrize(
    ("test", "level"),
    [
        ("if total > most:", INFO),
        ("if most > 1.0 and most:", WARNING),
        ("for most in (1.0, 2.0):", WARNING),
    ],
)
def test_a_read_behind_a_test_that_waits(test: str, level: Severity) -> None:
    (finding,) = found(CLIPPED.format(test=test), "TL101", "total.item()")
    assert finding.severity is level


LARGER = """\
import torch
from torch import nn


class Masks(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        x = self.layer(x)
        width = torch.randint(1, 5, (x.size(0),), device=x.device)
        {body}
        return x * start
"""


@pytest.mark.parametrize(
    ("body", "number"),
    [
        ("start = torch.randint(0, max(1, 9 - width.max()), (3,), device=x.device)", True),
        ("start = x[: max(1, width.max())].mean()", True),
        ("start = max(1, 9 - width.max())", False),
        ("start = torch.sin(max(width.min(), width.max()))", False),
    ],
)
def test_a_larger_number_that_the_host_needs(body: str, number: bool) -> None:
    (finding,) = found(LARGER.format(body=body), "TL602", "Python's max()")
    assert ("needs a number of the host" in finding.message) is number


WRAPPED = """\
import torch
from torch import nn
{first}


class Runner:
    def __init__(self, net):
        self.net = nn.DataParallel(net)

    def run(self, x):
        {body}
"""


@pytest.mark.parametrize(
    ("first", "body", "level"),
    [
        ("", "return self.net.module(x)", None),
        ("", "return self.net(x), self.net.module(x)", WARNING),
        ("", "return self.net(x)", WARNING),
        ("import torch_xla.core.xla_model as xm\nplace = xm.xla_device()", "self.net(x)", None),
        ("import xm\nx = xm.xla_device()\ny = torch.cuda.device(0)", "self.net(x)", WARNING),
        ("", "self.net.eval()\n        return self.net(x)", INFO),
    ],
)
def test_a_wrapper_that_is_passed_by(first: str, body: str, level: Severity | None) -> None:
    findings = found(WRAPPED.format(first=first, body=body), "TL301", "DataParallel")
    assert [each.severity for each in findings] == ([level] if level is not None else [])


@pytest.mark.parametrize(("device", "word"), [("xm.xla_device()", "TPU"), ('"cuda"', "GPU")])
def test_a_tpu_is_called_one(device: str, word: str) -> None:
    source = TRAINED.format(step=THERE, more="total += loss.item()").replace(
        ".cuda()", ".to(device)"
    )
    head = f"import torch_xla.core.xla_model as xm\n\ndevice = {device}\n"
    source = source.replace("\n\n", f"\n{head}\n", 1)
    (finding,) = found(source, "TL101", "loss.item()")
    assert f"reads a {word} value" in finding.message


GROWN = """\
import numpy as np
import torch


def run(model, holder, batches):
    for x in batches:
        {line}
        holder.data.rows = np.concatenate((holder.data.rows, model(x).cpu().numpy()))


run(torch.load("model"), torch.load("holder"), torch.load("batches"))
"""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("pass", True),
        ("print(holder.data.rows.shape)", True),
        ("holder.refresh()", False),
        ("batches.use(holder.data)", False),
        ("data = holder.data", False),
    ],
)
def test_an_attribute_of_an_object_that_the_loop_uses(line: str, said: bool) -> None:
    assert bool(found(GROWN.format(line=line), "TL603", "np.concatenate")) is said


ATTENTION = """\
import math

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(9, 9))
        self.far = nn.Linear(8, 9)

    def forward(self, q, k, v, mask):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        {added}
        weights = torch.softmax(scores, dim=-1)
        return weights @ v
"""


@pytest.mark.parametrize(
    ("added", "bias"),
    [
        ("scores = scores + self.table", "self.table"),
        ("scores = scores + self.far(q)", "self.far(q)"),
        ("relative_position_bias = mask; scores += relative_position_bias", "relative_pos"),
        ("scores = scores + mask", ""),
        ("pass", ""),
    ],
)
def test_scores_with_a_learned_bias(added: str, bias: str) -> None:
    (finding,) = found(ATTENTION.format(added=added), "TL405", "scaled_dot_product_attention")
    assert (f"takes `{bias}" in finding.message) is bool(bias)


OPTIONS = """\
import argparse

import torch
from torch import nn


def options():
    parser = argparse.ArgumentParser({made})
    parser.add_argument("--rate", type=float)
    {between}
    parser.add_argument({second})
    return parser.parse_args()


def main(batches):
    args = options()
    model, total = nn.Linear(8, 2).cuda(), 0.0
    optimizer = torch.optim.SGD(model.parameters(), lr=args.rate)
    for x in batches:
        loss = model(x.cuda()).square().mean()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(total)


if __name__ == "__main__":
    main(torch.load("batches"))
"""


@pytest.mark.parametrize(
    ("made", "between", "second", "runs"),
    [
        ("", "pass", '"--rate", type=float', False),
        ("", "parser.add_argument('--size', '-s')", '"-s", type=int', False),
        ("description='net'", "pass", '"-r", "--rate"', False),
        ("conflict_handler='resolve'", "pass", '"--rate", type=float', True),
        ("", "parser = argparse.ArgumentParser()", '"--rate", type=float', True),
        ("", "if torch.load('a'): return None", '"--rate", type=float', True),
        ("", "pass", '"--size", type=int', True),
    ],
)
def test_an_option_that_a_parser_gets_twice(
    made: str, between: str, second: str, runs: bool, tmp_path: Path
) -> None:
    source = OPTIONS.format(made=made, between=between, second=second)
    (tmp_path / "train.py").write_text(source, encoding="utf-8")
    forget()
    found = analyse_job(job(source, name="train.py", root=str(tmp_path))).findings
    assert any(each.code == "TL101" for each in found) is runs


DATA = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

model = nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


class Rows(Dataset):
    def __init__(self, name):
        self.x = torch.load(name)

    def __getitem__(self, index):
        return {sample}

    def __len__(self):
        return len(self.x)


def compose():
    made = {{}}
    for part in ("train", "test"):
        made[part] = Rows(part)
    return made["train"], made["test"]


train, test = compose()
for _ in range(9):
    for x in DataLoader({given}, batch_size=8, shuffle=True):
        loss = model(x.cuda()).square().mean()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("sample", "given", "said"),
    [
        ("self.x[index].float()", "train", False),
        ("self.x[index]", "compose()[0]", False),
        ("self.x[index]", "torch.load('train')", True),
        ("torch.load(self.x[index])", "train", True),
        ("self.transform(self.x[index])", "train", True),
    ],
)
def test_a_dataset_that_a_function_gives_back_beside_another(
    sample: str, given: str, said: bool
) -> None:
    assert bool(found(DATA.format(sample=sample, given=given), "TL201", "loads in")) is said
