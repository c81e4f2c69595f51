"""Beliefs that programs refuted when they ran (`benchmarks/truth.py`), and what stays believed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.semantic.test_project import probed
from tests.semantic.test_values import value_of
from torchlint.semantic.values.value import ACCEL, CPU, CUDA

GRAPH = """
def f(net: nn.Module, x, unknown):
    kept = net(x.cuda())
    plain = kept.detach()
    probe({})
"""


@pytest.mark.parametrize(
    "expression",
    ["kept.max(1)[1]", "torch.topk(kept, 5)[1]", "kept.sort(dim=1).indices", "kept.mode(0)[1]"],
)
def test_places_carry_no_graph(expression: str) -> None:
    found = value_of(GRAPH.format(expression))
    assert (found.kind, found.dtype, found.grad) == ("tensor", "int", False)


def test_places_that_are_unpacked_carry_no_graph() -> None:
    source = "def f(net: nn.Module, x):\n    best, at = net(x.cuda()).max(1)\n    probe({})\n"
    assert value_of(source.format("at")).dtype == "int"
    assert value_of(source.format("best")).grad is True


@pytest.mark.parametrize(
    "expression",
    ["kept.max(1)[0]", "torch.topk(kept, 5)[0]", "torch.max(kept, plain)", "kept.split(2)[1]"],
)
def test_what_stands_beside_places_keeps_its_graph(expression: str) -> None:
    found = value_of(GRAPH.format(expression))
    assert (found.kind, found.dtype == "int", found.grad) == ("tensor", False, True)


@pytest.mark.parametrize(
    ("expression", "graph"),
    [
        ("plain.expand_as(kept)", False),
        ("plain.view_as(kept)", False),
        ("plain.reshape_as(kept).exp()", False),
        ("kept.expand_as(plain)", True),
        ("plain.mul(kept)", True),
        ("plain * kept", True),
    ],
)
def test_a_tensor_that_lends_its_shape_lends_no_graph(expression: str, graph: bool) -> None:
    assert value_of(GRAPH.format(expression)).grad is graph


@pytest.mark.parametrize(
    ("expression", "graph"),
    [
        ("unknown - plain", None),
        ("torch.min(unknown * plain, plain)", None),
        ("torch.stack([unknown, plain])", None),
        ("plain.add(unknown)", None),
        ("plain - 2", False),
        ("torch.stack([plain, plain])", False),
        ("plain.add(plain)", False),
        ("plain.view(unknown)", False),
        ("unknown - kept", True),
    ],
)
def test_what_is_not_known_may_bring_a_graph(expression: str, graph: bool | None) -> None:
    source = GRAPH.replace("x, unknown", "x").replace("    probe", "    unknown = g()\n    probe")
    assert value_of(source.format(expression)).grad is graph


@pytest.mark.parametrize(
    ("expression", "graph"),
    [
        ("w * 2 + 1", False),
        ("w.exp()", False),
        ("torch.cat([w, w])", False),
        ("w", True),
        ("w.mul_(0.9)", True),
    ],
)
def test_no_grad_leaves_no_graph_to_what_is_computed(expression: str, graph: bool) -> None:
    source = "def f(net: nn.Module):\n    for w in net.parameters():\n        {}\n    probe(y)\n"
    held = f"with torch.no_grad():\n            y = {expression}"
    assert value_of(source.format(held)).grad is graph
    assert value_of(source.format(f"y = {expression}")).grad is True


@pytest.mark.parametrize("name", ["lr_actor", "d_model", "num_decoder", "dropout_encoder"])
def test_a_number_of_a_network_is_none(name: str) -> None:
    assert value_of(f"def f({name}):\n    probe({name})\n").kind != "module"


@pytest.mark.parametrize("name", ["actor", "target_actor", "best_model", "netD", "text_encoder"])
def test_names_of_networks_stay_networks(name: str) -> None:
    assert value_of(f"def f({name}):\n    probe({name})\n").kind == "module"


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("args.policy", "plain"),
        ("cfg.model", "plain"),
        ("opt.optimizer", "plain"),
        ("args.device", "device"),
        ("trainer.model", "module"),
        ("agent.policy", "module"),
    ],
)
def test_options_hold_the_names_of_things(expression: str, kind: str) -> None:
    root = expression.partition(".")[0]
    assert value_of(f"def f({root}):\n    probe({expression})\n").kind == kind


@pytest.mark.parametrize(
    "test", ["model == 'gcn'", "model in ('gcn', 'gat')", "model != 'none'", "model not in ['a']"]
)
def test_what_is_compared_with_texts_is_no_network(test: str) -> None:
    source = "def f({}):\n    if {}:\n        probe(model)\n"
    assert value_of(source.format("model", test)).kind == "?"
    assert value_of(source.format("model", "model == other")).kind == "module"
    bound = f"def f(model):\n    if {test}:\n        model = make(model)\n    probe(model)\n"
    assert value_of(bound).kind == "module", "it says which one is made, and is one then"


@pytest.mark.parametrize(
    "conversion",
    ["torch.tensor(x)", "torch.LongTensor(x).to(device)", "[y + 1 for y in x]"],
)
def test_uses_of_what_is_made_of_a_parameter_do_not_speak_of_it(conversion: str) -> None:
    source = "def f(x, device):\n    probe(x)\n    x = {}\n    return x.unsqueeze(0)\n"
    assert value_of(source.format(conversion)).kind == "?"
    kept = (
        "class N(nn.Module):\n    def feats(self, x):\n        probe(x)\n        return {}, x.shape"
    )
    assert value_of(kept.format("torch.LongTensor(x)")).kind == "?"
    assert value_of(kept.format("x + 1")).kind == "tensor"
    for derived in ("x.float()", "torch.relu(x)", "torch.cat([x, x])"):
        assert value_of(source.format(derived)).kind == "tensor"


@pytest.mark.parametrize(
    ("use", "kind"),
    [
        ("np.arange(x.size)", "?"),
        ("x.size // 2", "?"),
        ("x.size == 0", "?"),
        ("x.size(0)", "tensor"),
        ("x.size()[0]", "tensor"),
    ],
)
def test_a_size_that_is_not_called_is_that_of_an_array(use: str, kind: str) -> None:
    assert value_of(f"def f(x):\n    probe(x)\n    return {use}\n").kind == kind


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("root / 'weights.pt'", "plain"),
        ("root / 'runs' / 'last'", "plain"),
        ("'runs' / root", "plain"),
        ("name + '.pt'", "str"),
        ("'%s.pt' % name", "str"),
    ],
)
def test_a_path_is_no_text(expression: str, kind: str) -> None:
    assert value_of(f"def f(root, name):\n    probe({expression})\n").kind == kind


TRIED = """
import torch

def penalty(trans):
    return probe(trans)

if __name__ == "__main__":
    penalty(torch.rand(4, 3, 3))
"""


@pytest.mark.parametrize(
    ("given", "device"),
    [
        ("torch.rand(4, 3, 3).cuda()", CUDA),
        ("net(x)", ACCEL),
        ("unheard_of(x)", None),
        ("torch.zeros(4, 3, 3)", CPU),
    ],
)
def test_a_trial_in_its_own_file_does_not_say_where_a_function_works(
    tmp_path: Path, given: str, device: str | None
) -> None:
    train = f"""\
import torch
from torch import nn
from nets import penalty

def step(net: nn.Module, loader, optimizer):
    for x in loader:
        loss = penalty({given})
        loss.backward()
        optimizer.step()
"""
    found = probed(tmp_path, {"nets.py": TRIED, "train.py": train}, "nets.py")
    assert (found.kind, found.device) == ("tensor", device)


@pytest.mark.parametrize(
    ("assigned", "kind"),
    [
        ("None", "?"),
        ("None if x else None", "?"),
        ("torch.zeros(3)", "tensor"),
        ("0", "number"),
    ],
)
def test_who_keeps_none_alone_is_filled_from_outside(assigned: str, kind: str) -> None:
    source = f"""
    class Decoder(nn.Module):
        def __init__(self, x):
            self.memory = {assigned}

        def forward(self, x):
            probe(self.memory)
    """
    assert value_of(source).kind == kind


def test_a_package_of_torch_is_no_optimizer() -> None:
    """A star import brought it, so that the text alone speaks."""
    assert value_of("def f(torch):\n    probe(torch.optim)\n").kind == "?"
    assert value_of("def f(self):\n    probe(self.optim)\n").kind == "optimizer"


@pytest.mark.parametrize(
    ("more", "graph"),
    [
        ("", True),
        (", requires_grad=True", True),
        (", requires_grad=False", False),
        (", False", False),
        (", requires_grad=trained", None),
        (", not frozen", None),
    ],
)
def test_a_parameter_may_be_made_without_a_gradient(more: str, graph: bool | None) -> None:
    source = f"def f(trained, frozen):\n    probe(nn.Parameter(torch.zeros(3){more}))\n"
    assert value_of(source).grad is graph


WRITTEN = """
def f(net: nn.Module, x, unknown):
    out = torch.zeros(9, 3).cuda()
    step = net(x.cuda())
    t = 0
    {}
    probe(out)
"""


@pytest.mark.parametrize(
    ("write", "graph"),
    [
        ("out[t] = step", True),
        ("out[:, t] += step", True),
        ("out.add_(step)", True),
        ("out[t] = unheard_of(x)", None),
        ("out[t] = step.detach()", False),
        ("out[t] = 0", False),
        ("out.mul_(0.9)", False),
        ("out.add(step)", False),
        ("torch.no_grad().__enter__()", False),
        ("other[t] = step", False),
    ],
)
def test_a_tensor_takes_over_the_graph_of_what_is_written_into_it(
    write: str, graph: bool | None
) -> None:
    assert value_of(WRITTEN.format(write)).grad is graph


def test_what_no_grad_writes_brings_no_graph() -> None:
    held = "with torch.no_grad():\n        out[t] = step"
    assert value_of(WRITTEN.format(held)).grad is False


@pytest.mark.parametrize(
    ("expression", "graph"),
    [
        ("torch.zeros(3, requires_grad=True) * 2", True),
        ("torch.tensor([1.0], requires_grad=True)", True),
        ("torch.zeros(3).requires_grad_()", True),
        ("torch.autograd.Variable(torch.zeros(3), requires_grad=True)", True),
        ("torch.zeros(3, requires_grad=c)", None),
        ("torch.zeros(3, requires_grad=False)", False),
        ("torch.zeros(3).requires_grad_(False)", False),
        ("torch.autograd.Variable(torch.zeros(3))", False),
    ],
)
def test_a_tensor_may_be_made_with_a_gradient(expression: str, graph: bool | None) -> None:
    assert value_of(f"def f(c):\n    probe({expression})\n").grad is graph


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ("torch.optim.Adam(x, lr=0.1)", "?"),
        ("torch.optim.SGD(x, 0.1, momentum=0.9)", "?"),
        ("nn.utils.clip_grad_norm_(x, 1.0)", "?"),
        ("torch.distributions.Normal(x, 1.0)", "tensor"),
        ("nn.utils.rnn.pad_packed_sequence(x)", "tensor"),
        ("torch.relu(x)", "tensor"),
    ],
)
def test_what_is_trained_is_no_single_tensor(call: str, kind: str) -> None:
    assert value_of(f"def f(x):\n    probe(x)\n    return {call}\n").kind == kind


@pytest.mark.parametrize(
    ("lines", "origin"),
    [
        ("probe(y); y = y.cuda()", None),
        ("probe(y); x, y = x.to(device), y.to(device)", None),
        ("show(y.to(0)); probe(y)", None),
        ("probe(y)", "model"),
        ("probe(y); y = y.squeeze(1)", "model"),
        ("probe(y); x = x.cuda()", "model"),
    ],
)
def test_what_is_moved_did_not_live_with_the_model(lines: str, origin: str | None) -> None:
    """It reaches the loss, but behind its move."""
    found = value_of(
        "def train(net, batches, device):\n    for x, y in batches:\n"
        f"        {lines}\n        loss = nn.functional.cross_entropy(net(x), y)\n"
        "        loss.backward()\n"
    )
    assert (found.kind, found.origin) == ("tensor", origin)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("align_corners", "?"), ("keepdim", "?"), ("inplace", "?"), ("weight", "tensor")],
)
def test_options_of_torchs_functions_are_no_tensors(name: str, kind: str) -> None:
    found = value_of(
        f"def resize(x, {name}=None):\n    if {name} is not None:\n        probe({name})\n"
        f"    return nn.functional.interpolate(x, None, 2, 'nearest', {name})\n\n"
        "class Net(nn.Module):\n    def forward(self, x):\n        return resize(x, self.own)\n"
    )
    assert found.kind == kind


CLASSES = """
class Small(nn.Module):
    def forward(self, x):
        return torch.relu(x), {"loss": 1.0}
    def normalize_decoder(self):
        return 0

class Large(nn.Module):
    def forward(self, x):
        return torch.exp(x), {"loss": 2.0, "kept": 3.0}
    def normalize_decoder(self):
        return 1
"""
USE = """
def train(kind, x):
    net = make(kind).to("cuda")
    out, *rest = net(x.cuda())
    out, metrics = net(x.cuda())
    probe({})
"""


@pytest.mark.parametrize(
    "make",
    [
        "def make(kind):\n    if kind == 'a':\n        return Small()\n    return Large()\n",
        "def make(kind):\n    return Small() if kind else Large()\n",
        "def make(kind):\n    net = Small()\n    if kind:\n        net = Large()\n    return net\n",
    ],
)
@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("out", "tensor"),
        ("metrics['loss']", "number"),
        ("net.normalize_decoder", "function"),
        ("net.normalize_decoder()", "number"),
        ("rest[0]", "dict"),
    ],
)
def test_a_network_of_one_of_several_classes(
    make: str, elsewhere: bool, expression: str, kind: str, tmp_path: Path
) -> None:
    if elsewhere:
        nets = f"import torch\nimport torch.nn as nn\n{CLASSES}\n{make}"
        files = {"nets.py": nets, "train.py": "from nets import make\n" + USE.format(expression)}
        found = probed(tmp_path, files, "train.py")
    else:
        found = value_of(CLASSES + make + USE.format(expression))
    assert found.kind == kind
    assert found.device == (ACCEL if kind == "tensor" else None) or found.device == CUDA


@pytest.mark.parametrize(
    "make",
    [
        "def make(kind):\n    return Small() if kind else unknown()\n",
        "def make(kind):\n    return Small() if kind else nn.Linear(3, 3)\n",
        "from nets import make\n",
    ],
)
def test_a_network_of_a_class_that_is_not_seen_gives_what_networks_give(make: str) -> None:
    assert value_of(CLASSES + make + USE.format("metrics['loss']")).kind != "number"


UNGRAPHED = """
class Net(nn.Module):
    def forward(self, x):
        return self.encoder(x), self.head(x)
    def loss(self, out):
        return out.mean(), (out * 2).sum()

def both(net, x):
    return net(x), net(x)

def f(net: Net, x, train):
    {}
        out, other = net(x)
        loss, part = net.loss(out)
        first, second = both(net, x)
    probe({})
"""


@pytest.mark.parametrize("context", ["with torch.no_grad():", "with torch.inference_mode():"])
@pytest.mark.parametrize("expression", ["out", "loss", "part", "second", "torch.cat([out, other])"])
def test_what_runs_without_a_graph_gives_none(context: str, expression: str) -> None:
    assert not value_of(UNGRAPHED.format(context, expression)).grad


@pytest.mark.parametrize(
    "context", ["if train:", "with torch.enable_grad():", "for _ in range(3):"]
)
@pytest.mark.parametrize("expression", ["out", "loss", "part"])
def test_what_runs_with_a_graph_has_one(context: str, expression: str) -> None:
    assert value_of(UNGRAPHED.format(context, expression)).grad is True


@pytest.mark.parametrize(
    ("head", "expression", "graph"),
    [
        ("Normal(net(x), 1.0)", "entropy()", None),
        ("MultivariateNormal(net(x), torch.eye(3))", "entropy().mean()", None),
        ("Laplace(net(x), 1.0)", "scale", None),
        ("Normal(net(x), 1.0)", "log_prob(x)", True),
        ("Categorical(logits=net(x))", "logits", True),
        ("Normal(net(x), 1.0)", "sample()", False),
    ],
)
def test_the_graph_of_a_distribution_is_that_of_what_decides(
    head: str, expression: str, graph: bool | None
) -> None:
    source = f"from torch.distributions import *\ndef f(net: nn.Module, x):\n    d = {head}\n"
    source = source.replace("*", "Categorical, Laplace, MultivariateNormal, Normal")
    assert value_of(source + f"    probe(d.{expression})\n").grad is graph


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("kept.nonzero(as_tuple=True)", "tuple"),
        ("torch.nonzero(kept, as_tuple=True)", "tuple"),
        ("torch.where(kept > 0)", "tuple"),
        ("kept.nonzero()", "tensor"),
        ("torch.where(kept > 0, kept, plain)", "tensor"),
        ("kept.where(kept > 0, plain)", "tensor"),
        ("'cuda'.startswith(unknown)", "bool"),
        ("'cuda'.isdigit()", "bool"),
        ("'cuda:0'.find(unknown)", "number"),
        ("'cuda:0'.replace(unknown, '')", "str"),
        ("'a b'.split()", "list"),
        ("tqdm.tqdm(kept)", "iterator"),
        ("[each for each in tqdm.tqdm(kept)][0]", "tensor"),
        ("tqdm.tqdm(unknown)", "?"),
    ],
)
def test_what_is_no_single_tensor(expression: str, kind: str) -> None:
    assert value_of("import tqdm\n" + GRAPH.format(expression)).kind == kind


@pytest.mark.parametrize(
    ("before", "graph"),
    [
        ("for p in net.encoder.parameters(): p.requires_grad = False", None),
        ("net.encoder.requires_grad_(False)", None),
        ("for p in net.parameters():\n        if p.requires_grad: print(p)", None),
        ("net.eval()", True),
    ],
)
def test_what_may_be_frozen_is_not_known_to_be_trained(before: str, graph: bool | None) -> None:
    source = f"def f(net: nn.Module):\n    {before}\n    for p in net.parameters(): probe(p)\n"
    assert value_of(source).grad is graph


@pytest.mark.parametrize(
    ("targets", "name", "kind"),
    [
        ("first, *rest", "first", "tensor"),
        ("*rest, last", "last", "str"),
        ("first, *rest, last", "rest", "list"),
        ("first, *rest, last", "last", "str"),
        ("a, b, c, d, *rest", "a", "?"),
    ],
)
def test_a_starred_target_takes_what_the_others_leave(targets: str, name: str, kind: str) -> None:
    source = f"def f():\n    {targets} = (torch.zeros(3), 1, 'text')\n    probe({name})\n"
    assert value_of(source).kind == kind


@pytest.mark.parametrize(
    ("second", "kind"),
    [
        ("plain", "tensor"),
        ("1", "tuple"),
        ("dim=1", "tuple"),
        ("dim=unknown.axis", "tuple"),
        ("unknown.estimate(kept)", "?"),
    ],
)
def test_the_largest_of_two_tensors_is_none_along_a_dimension(second: str, kind: str) -> None:
    assert value_of(GRAPH.format(f"torch.max(kept, {second})")).kind == kind


@pytest.mark.parametrize(
    ("call", "graph"),
    [
        ("iou(net(x), x)", None),
        ("iou(unknown(x), x)", None),
        ("iou(boxes=net(x)[0])", None),
        ("iou(torch.zeros(3), torch.zeros(3))", False),
    ],
)
def test_a_file_does_not_call_its_functions_alone(
    call: str, graph: bool | None, tmp_path: Path
) -> None:
    files = {
        "boxes.py": "import torch\ndef iou(boxes, other=None):\n    probe(boxes)\n"
        "def nms(rows):\n    return iou(torch.zeros(4), torch.zeros(4))\n",
        "loss.py": "import torch\nfrom torch import nn\nfrom boxes import iou\n"
        f"def loss(net: nn.Module, x, unknown):\n    return {call}\n",
    }
    assert probed(tmp_path, files, "boxes.py").grad is graph


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ('"""Give what was learned."""', "?"),
        ("pass", "?"),
        ("raise NotImplementedError", "?"),
        ("print(batch)", "none"),
        ("return batch.numpy()", "ndarray"),
    ],
)
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_method_that_others_fill_in_gives_what_is_not_known(
    body: str, kind: str, elsewhere: bool, tmp_path: Path
) -> None:
    agent = f"class Agent:\n    def learn(self, batch):\n        {body}\n"
    use = "def run(agent: Agent, batch):\n    found = agent.learn(batch)\n    probe(found)\n"
    if elsewhere:
        files = {"agents.py": agent, "run.py": "from agents import Agent\n" + use}
        assert probed(tmp_path, files, "run.py").kind == kind
    else:
        assert value_of(agent + use).kind == kind


BESIDE_A_LOSS = """
def f(loader, step, given, cfg):
    for batch in loader:
        {}
        {}
        probe({})
"""


@pytest.mark.parametrize(
    ("made", "trained", "expression"),
    [
        ("out = step(batch)", 'out["loss"].backward(); out["kl"].item()', 'out["kl"]'),
        ("out = step(batch)", "out.loss.backward(); out.kl.detach()", "out.kl"),
        ("loss, out = step(batch)", 'loss.backward(); out["kl"].cpu()', 'out["kl"]'),
        ("loss, out = step(batch)", "loss.backward(); out.item()", "out"),
        (
            "out = step(batch)",
            'loss = out["a"] + out["b"]; loss.backward(); out["c"].item()',
            'out["c"]',
        ),
        (
            "out = step(batch)",
            'loss = sum(out.values()); loss.backward(); out["c"].item()',
            'out["c"]',
        ),
    ],
)
def test_what_comes_with_a_loss_lives_with_it(made: str, trained: str, expression: str) -> None:
    found = value_of(BESIDE_A_LOSS.format(made, trained, expression))
    assert (found.kind, found.origin) == ("tensor", "model")


@pytest.mark.parametrize(
    ("made", "trained", "expression"),
    [
        ("out = step(batch)", 'out["loss"].backward(); given["kl"].item()', 'given["kl"]'),
        ("loss, out = step(batch)", "loss.backward(); print(out)", "out"),
        ("loss, out = step(batch)", 'loss.backward(); print(out["kl"])', 'out["kl"]'),
        ("loss, out = batch", "loss.backward(); out.item()", "out"),
        ("x, out = step(batch)", "x.sum().backward(); out.item()", "out"),
    ],
)
def test_what_is_only_named_beside_it_is_not_known(
    made: str, trained: str, expression: str
) -> None:
    assert value_of(BESIDE_A_LOSS.format(made, trained, expression)).origin != "model"


@pytest.mark.parametrize(("said", "kind"), [("torch.tensor", "tensor"), ("np.array", "ndarray")])
def test_an_annotation_may_name_the_function(said: str, kind: str) -> None:
    source = f"import numpy as np\ndef f(x: {said}):\n    probe(x)\n"
    assert value_of(source).kind == kind


CRITICISED = """
def f(net, criterion, things, unknown):
    for thing in things:
        out = net.run(thing)
        loss = criterion(out, thing.y)
        {}
        probe({})
"""


@pytest.mark.parametrize(
    ("line", "expression", "origin"),
    [
        ("loss.backward(); out.argmax(1)", "out", "model"),
        ("loss.backward(); out.softmax(1)", "out.max()", "model"),
        ("loss.backward(); out.items()", "out", None),
        ("out.argmax(1)", "out", None),
        ("loss.backward(); unknown.argmax(1)", "unknown", None),
    ],
)
def test_what_a_criterion_compares_in_training_lives_with_the_loss(
    line: str, expression: str, origin: str | None
) -> None:
    assert value_of(CRITICISED.format(line, expression)).origin == origin
