"""Blocks of no_grad that TL501 puts around statements are executed in all kinds of surroundings:
what is printed, trained and drawn is the same, to the last digit, before and after."""

from __future__ import annotations

import pytest

from tests.checking import fixed

torch = pytest.importorskip("torch")

from tests.executed import ran  # noqa: E402 - it imports torch

HEAD = """\
import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
critic = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
loss_fn = nn.BCEWithLogitsLoss()
first = torch.optim.SGD(critic.parameters(), lr=0.1)
second = torch.optim.SGD(generator.parameters(), lr=0.1)
loader = [torch.randn(5, 4) for _ in range(4)]
ones, zeros = torch.ones(5, 1), torch.zeros(5, 1)
net = nn.Linear(4, 2)


def told(*models):
    for model in models:
        for name, value in model.state_dict().items():
            print(name, value.double().sum().item())


"""
TRAIN = """\
for real in loader:
{deceive}    first.zero_grad()
    loss = loss_fn(critic(real), ones) + loss_fn(critic(fake), zeros)
    loss.backward()
    first.step()
    second.zero_grad()
    loss_fn(critic(generator(torch.randn(5, 3))), ones).backward()
    second.step()
told(generator, critic)
print(torch.rand(1))
"""


def gan(deceive: str) -> str:
    return TRAIN.format(deceive="".join(f"    {line}\n" for line in deceive.splitlines()))


PROGRAMS = {
    "detached in the statement": gan("fake = generator(torch.randn(5, 3)).detach()"),
    "detached later": gan("made = generator(torch.randn(5, 3))\nfake = made.detach()"),
    "annotated": gan("made: torch.Tensor = generator(torch.randn(5, 3))\nfake = made.detach()"),
    "a comment behind": gan("fake = generator(torch.randn(5, 3)).detach()  # no graph"),
    "two in a row": gan(
        "fake = generator(torch.randn(5, 3)).detach()\n"
        "other = generator(torch.ones(5, 3)).detach()\nprint(other.sum())"
    ),
    "returned": "def act(x):\n    return torch.argmax(net(x), dim=1)\n\n"
    "net.eval()\nfor x in loader:\n    print(act(x))\n",
    "kept in a list": "def predict():\n    net.eval()\n    found = []\n    for x in loader:\n"
    "        found.append(net(x).detach().numpy())\n    return found\n\nprint(predict())\n",
    "to the host in one statement": "net.eval()\nfor x in loader:\n"
    "    found = net(x).softmax(1).detach().cpu().numpy()\n    print(found.sum(), found.dtype)\n",
    "into a tensor without a graph": "values = torch.zeros(20, 2)\nnet.eval()\n"
    "for i, x in enumerate(loader):\n    values[5 * i : 5 * i + 5] = net(x).detach()\n"
    "print(values, values.requires_grad)\n",
}
LEFT = {
    "into a tensor with a graph": "for x in loader:\n    rows = net(x) * 2\n"
    "    rows[0] = net(x).detach()[0]\n    rows.sum().backward()\n"
    "told(net)\nprint(net.weight.grad)\n",
    "a function of the program gets it": gan(
        "made = []\nkeep(made, generator(torch.randn(5, 3)).detach(), net)\nfake = made[0]"
    ).replace("for real", "def keep(made, x, net):\n    made.append(x)\n\nfor real", 1),
    "the block of autocast is shared": "for x in loader:\n    first.zero_grad()\n"
    "    with torch.autocast('cpu', dtype=torch.bfloat16):\n        shown = critic(x).detach()\n"
    "        loss = critic(x).float().sum()\n    loss.backward()\n    first.step()\n"
    "    print(shown.sum())\ntold(critic)\n",
    "awaited": "async def take():\n    for x in loader:\n        await keep(net(x).detach())\n",
}


SAFE = {
    "a number is read": "net.eval()\ntotal = 0.0\nfor x in loader:\n"
    "    total += net(x).mean().item()\nprint(total)\n",
    "a function that only evaluates": "def evaluate(model):\n    model.eval()\n"
    "    return [model(x).argmax(1).tolist() for x in loader]\n\nprint(evaluate(net))\n",
    "printed as a number": "def evaluate(model):\n    model.eval()\n    for x in loader:\n"
    "        loss = model(x).mean()\n        print(f'{loss:.3f}', loss.item())\n\n"
    "evaluate(net)\n",
}
NAMES = (
    "class Names:\n    def spelled(self, rows):\n        return [str(row) for row in rows]\n\n"
    "    def row(self, i):\n        return torch.full((2,), i, requires_grad=True)\n\n\n"
    "def show(*rows):\n    print(*rows)\n\n\nshown, names = vars()['show'], vars()['Names']()\n"
)
LEAVES = {
    "a method of an object that anybody gives": "def evaluate(model, names):\n    model.eval()\n"
    "    found = [model(x).argmax(1).tolist() for x in loader]\n"
    "    return names.spelled(found)\n\nshown(evaluate(net, names))\n",
    "what another object gives is kept": "def evaluate(model, names):\n    model.eval()\n"
    "    kept = []\n    for i, x in enumerate(loader):\n"
    "        kept.append((names.row(float(i)), model(x).argmax(1).tolist()))\n"
    "    return kept\n\nshown(evaluate(net, names))\n",
    "what is drawn by an unknown function": "def evaluate(model, draw):\n    model.eval()\n"
    "    rows = [model(x).argmax(1).tolist() for x in loader]\n"
    "    return draw(len(rows)), rows\n\nshown(evaluate(net, torch.rand))\n",
}
UNSAFE = {
    "a sum of losses that is given to whom nobody knows": "def run(model):\n    model.eval()\n"
    "    total = 0.0\n    for x in loader:\n        total += model(x).mean()\n"
    "    return total\n\nvars()['told'](net)\nprint([run(net)])\n",
    "printed as it is": "def evaluate(model):\n    model.eval()\n    for x in loader:\n"
    "        loss = model(x).mean()\n        print(loss)\n\nevaluate(net)\n",
    "its graph is asked about": "def evaluate(model):\n    model.eval()\n    for x in loader:\n"
    "        print(model(x).requires_grad)\n\nevaluate(net)\n",
    "written as text": "def evaluate(model):\n    model.eval()\n    for x in loader:\n"
    "        print(f'{model(x)}', '%s' % model(x))\n\nevaluate(net)\n",
    "saved": "def evaluate(model):\n    model.eval()\n    for x in loader:\n"
    "        torch.save(model(x), 'kept.pt')\n\nevaluate(net)\n",
    "given back": "def evaluate(model):\n    model.eval()\n    for x in loader:\n"
    "        loss = model(x).mean()\n    return loss\n\nfirst.zero_grad()\nprint(evaluate(net))\n",
    "trained by what is called": "def evaluate(model, trainer):\n    model.eval()\n"
    "    for x in loader:\n        print(model(x).mean().item())\n        trainer.fit_one(x)\n",
    "the callers run under autocast": "def evaluate(model):\n    model.eval()\n"
    "    return [model(x).argmax(1).tolist() for x in loader]\n\n"
    "with torch.autocast('cpu', dtype=torch.bfloat16):\n    print(evaluate(net))\n"
    "    critic(loader[0]).float().sum().backward()\n",
}


@pytest.mark.parametrize("name", SAFE)
def test_what_ends_in_numbers_is_safe(name: str) -> None:
    source = HEAD + SAFE[name]
    after = fixed(source, "safe", codes=frozenset({"TL501"})).after
    assert after.count("torch.no_grad()") == 1
    assert output(after) == output(source)


@pytest.mark.parametrize("name", LEAVES)
def test_what_leaves_an_evaluation_is_not_trained_on(name: str) -> None:
    source = HEAD + NAMES + LEAVES[name]
    report = fixed(source, "safe", codes=frozenset({"TL501"}))
    assert report.after.count("torch.no_grad()") == 1
    assert output(report.after) == output(source)


@pytest.mark.parametrize("name", UNSAFE)
def test_a_graph_that_may_be_seen_makes_it_unsafe(name: str) -> None:
    source = HEAD + UNSAFE[name]
    assert fixed(source, "safe", codes=frozenset({"TL501"})).after == ""
    assert changed(source).count("torch.no_grad()") == 1


def output(source: str) -> str:
    return ran(source)[1]


def changed(source: str) -> str:
    return fixed(source, "unsafe", codes=frozenset({"TL501"})).after or source


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_block_without_gradients_gives_the_same(name: str) -> None:
    source = HEAD + PROGRAMS[name]
    after = changed(source)
    assert after.count("no_grad") == 1, after
    assert output(after) == output(source)
    assert changed(after) == after, "the second run changes something"


@pytest.mark.parametrize("name", LEFT)
def test_a_statement_that_does_more_stays(name: str) -> None:
    source = HEAD + LEFT[name]
    assert changed(source) == source


def test_neighbours_share_a_block() -> None:
    after = changed(HEAD + PROGRAMS["two in a row"])
    assert (
        "    with torch.no_grad():\n"
        "        fake = generator(torch.randn(5, 3)).detach()\n"
        "        other = generator(torch.ones(5, 3)).detach()\n"
        "    print(other.sum())\n"
    ) in after


BETWEEN = """\
made = generator(torch.randn(5, 3))
fake = made * 2 + ones

other = generator(torch.ones(5, 3))
fake = torch.min(fake, other).detach()
print(other.detach().sum())"""


def test_what_nobody_uses_the_graph_of_may_stand_between() -> None:
    source = HEAD + gan(BETWEEN)
    after = changed(source)
    assert (
        "    with torch.no_grad():\n"
        "        made = generator(torch.randn(5, 3))\n"
        "        fake = made * 2 + ones\n"
        "\n"
        "        other = generator(torch.ones(5, 3))\n"
        "    fake = torch.min(fake, other).detach()\n"
    ) in after
    assert output(after) == output(source)
    assert changed(after) == after


APART = {
    "its graph is used": "fake = critic(real) * made.mean().detach()\nfake.sum().backward()",
    "it changes something in place": "made = made.mul_(2)",
    "it does more": "again = told(generator)",
    "it draws of an optimizer": "first.zero_grad()",
    "a comment above": "# twice\ndouble = made * 2",
    "several names": "double, more = made * 2, made",
    "an attribute": "net.kept = real * 2",
}


@pytest.mark.parametrize("between", APART.values(), ids=APART)
def test_what_does_more_keeps_blocks_apart(between: str) -> None:
    lines = BETWEEN.replace("fake = made * 2 + ones\n", f"{between}\nfake = made.detach()\n")
    source = HEAD + gan(lines)
    after = changed(source)
    assert after.count("with torch.no_grad():\n") == 2, after
    assert output(after) == output(source)


@pytest.mark.parametrize("comment", ["", "  # no_grad() breaks torch.compile here"])
def test_a_comment_on_no_grad_is_believed(comment: str) -> None:
    loop = f"""\
def evaluate(model, loader, context):
    model.eval()
    total = 0.0
    for x in loader:
        with context:{comment}
            loss = model(x).mean()
        total += loss.item()
    return total
"""
    after = fixed(f"import torch\n\n\n{loop}", "unsafe", codes=frozenset({"TL501"})).after
    assert ("torch.no_grad()" in after) is not bool(comment)


IN_A_ROW = """\
import torch
from torch import nn
from somewhere import mixed


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 4)

    def forward(self, x, other=None):
        return self.out(x) if other is None else mixed(self.out(x), other)


first, second, third = Part(), Part(), Part()
for row in torch.rand(16, 4):
    made = first(row)
{between}    pred = second(row, made)
    pred = third(pred)
    print(pred.detach().numpy())
"""


@pytest.mark.parametrize(
    ("between", "together"),
    [("", True), ("    mixed(made)\n", False), ("    # of its row\n", False)],
)
def test_models_that_run_for_the_next_one_alone_go_with_it(between: str, together: bool) -> None:
    after = changed(IN_A_ROW.format(between=between))
    block = (
        "    with torch.no_grad():\n        made = first(row)\n        pred = second(row, made)\n"
    )
    assert (block in after) is together
