"""What is true but costs next to nothing is an info that says beside what: a wait in a step that
waits in any case for work of the host that takes longer, a few launches."""

from __future__ import annotations

import pytest

from tests.checking import check
from torchlint.base.finding import Finding, Severity

PROGRAM = """\
import gymnasium
import matplotlib.pyplot as plt
import torch
from PIL import Image
from torch import nn

device = "cuda"
model = nn.Linear(4, 3).to(device)
sgd = torch.optim.SGD(model.parameters(), lr=0.1)
env = gymnasium.make("CartPole-v1")
writer = torch.utils.tensorboard.SummaryWriter()


def mean_of(x):
    mask = torch.zeros(4).to(device)
    return (x * mask).mean()


def run(batches, path, quick):
    total, state = 0.0, env.reset()
    for step, batch in enumerate(batches):
        x = batch.to(device, non_blocking=True)
        out = model(x)
        loss = out.mean() + mean_of(x)
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        total += loss.item()
        {body}
    return total


print(run([torch.ones(2, 4)], "a.png", True))
"""
ACTS = "state, *_ = env.step(int(model(x).argmax()))"
DRAWS = "plt.plot(out.detach().cpu().numpy())"


def found(source: str, code: str, part: str) -> Finding:
    report = check(source, codes=frozenset({code}), name="train.py")
    return next(each for each in report.findings if part in each.message)


def levels(body: str) -> tuple[Severity, Severity]:
    """Return the severity of a read in the loop, and of an upload in a function that it calls."""
    source = PROGRAM.format(body=body)
    read, upload = found(source, "TL101", "loss.item()"), found(source, "TL102", "torch.zeros")
    return read.severity, upload.severity


INFO, WARNING = Severity.INFO, Severity.WARNING


@pytest.mark.parametrize(
    ("body", "level"),
    [
        ("pass", WARNING),
        (ACTS, INFO),
        # What is drawn at random waits for nothing.
        ("env.step(env.action_space.sample())", WARNING),
        ("action = env.action_space.sample(); env.step(action)", WARNING),
        # A simulator on the device.
        ("env.step(model(x))", WARNING),
        # Not all that has steps is called an environment.
        ("sampler = object(); sampler.step(int(x.argmax()))", WARNING),
        (f"{DRAWS}; plt.savefig(path)", INFO),
        # The figure is drawn of what the host has: nothing else waits.
        ("plt.savefig(path)", WARNING),
        # A plot alone is only noted down.
        (DRAWS, WARNING),
        (f"if quick: {DRAWS}; plt.savefig(path)", WARNING),
        (f"{DRAWS}; [plt.savefig(path) for _ in range(step)]", INFO),
    ],
)
def test_a_wait_beside_dearer_work_is_an_info(body: str, level: Severity) -> None:
    assert levels(body) == (level, level)


def test_the_message_says_what_costs_more() -> None:
    finding = found(PROGRAM.format(body=ACTS), "TL101", "loss.item()")
    assert finding.message.endswith(
        "The same step waits for the device in any case, and "
        "`env.step(int(model(x).argmax()))` costs more."
    )


def test_a_picture_that_the_host_draws_at_random_costs_more_than_a_wait() -> None:
    source = PROGRAM.replace("torch.zeros(4)", "torch.zeros(4, 4, 512, 512)").format(body=ACTS)
    assert found(source, "TL102", "torch.zeros").severity is WARNING


CALLED = """\


def evaluate(x):
    return mean_of(model(x.to(device)))


for batch in [torch.ones(2, 4)]:
    evaluate(batch).backward()
"""


def test_a_function_that_is_called_elsewhere_too_keeps_its_warning() -> None:
    source = PROGRAM.format(body=ACTS) + CALLED
    assert found(source, "TL102", "torch.zeros").severity is WARNING


SCORED = """\
import torch
from torch import nn

device = "cuda"
model = nn.Linear(4, 3).to(device)


@torch.no_grad()
def validate(batches):
    kept = []
    for batch in batches:
        out = model(batch.to(device))
        weight = torch.ones(3).to(device)
        kept.append((out * weight).sum(){gathered})
    return torch.stack(kept)


validate([torch.ones(2, 4)])
"""


@pytest.mark.parametrize(("gathered", "level"), [("", WARNING), (" + out[out > 0].sum()", INFO)])
def test_an_upload_of_an_evaluation_that_gathers_as_well(gathered: str, level: Severity) -> None:
    finding = found(SCORED.format(gathered=gathered), "TL102", "torch.ones")
    assert finding.severity is level
    assert ("waits for the device as well" in finding.message) is (level is INFO)


TWO = """\
import torch
from torch import nn

model = nn.Linear(4, 3).cuda()


@torch.no_grad()
def validate(batches):
    kept = []
    for x in batches:
        out = model(x.cuda())
        for k in range(30):
            others = (out != k).nonzero()
            kept += [others, (out == k).nonzero()]
    return kept


validate([torch.ones(2, 4)])
"""


def test_of_two_gathers_of_an_evaluation_the_first_is_a_warning() -> None:
    first, second = (found(TWO, "TL107", f"(out {sign} k)") for sign in ("!=", "=="))
    assert (first.severity, second.severity) == (WARNING, INFO)


CLIPPED = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, n, last):
        super().__init__()
        self.n = n
        self.body = nn.Sequential(nn.Linear(n, n), nn.ReLU(), {layers})
        {more}

    def forward(self, x):
        return self.body(x)


class Agent:
    def __init__(self, n):
        self.net = Net(n, nn.Linear(n, n)).to("cuda")
        self.sgd = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def update(self, batches):
        for x in batches:
            self.sgd.zero_grad()
            self.net(x.cuda()).mean().backward()
            for p in self.net.parameters():
                {clip}
            self.sgd.step()


Agent(4).update([torch.ones(2, 4)])
"""
CLIP = "p.grad.data.clamp_(-1, 1)"


@pytest.mark.parametrize(
    ("layers", "more", "clip", "level"),
    [
        ("nn.Linear(n, n)", "pass", CLIP, INFO),
        (", ".join(["nn.Linear(n, n)"] * 4), "pass", CLIP, WARNING),
        ("nn.Linear(n, n)", "pass", "p.grad.data.mul_(2).clamp_(-1, 1).mul_(0.5)", WARNING),
        ("last", "pass", CLIP, WARNING),
        ("nn.LSTM(n, n)", "pass", CLIP, WARNING),
        ("nn.Linear(n, n)", "self.body.append(nn.Linear(n, n))", CLIP, WARNING),
        ("nn.Linear(n, n)", "self.more = Net(n - 1, last) if n else None", CLIP, WARNING),
        ("*[nn.Linear(n, n) for _ in range(n)]", "pass", CLIP, WARNING),
        ("nn.Linear(n, n, bias=False)", "self.other = nn.BatchNorm1d(n)", CLIP, INFO),
        (
            "nn.Linear(n, n)",
            "self.heads = nn.ModuleList([nn.Linear(n, n) for _ in range(n)])",
            CLIP,
            WARNING,
        ),
    ],
)
def test_a_loop_of_a_few_launches_is_an_info(
    layers: str, more: str, clip: str, level: Severity
) -> None:
    source = CLIPPED.format(layers=layers, more=more, clip=clip)
    finding = found(source, "TL510", "one after the other")
    assert finding.severity is level
    assert ("launches at most" in finding.message) is (level is INFO)
