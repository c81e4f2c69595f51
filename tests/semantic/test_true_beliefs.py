"""Beliefs that programs refuted when they ran (`benchmarks/truth.py`), and what stays believed."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest

from tests.semantic.test_project import probed
from tests.semantic.test_values import module, value_of
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.tree import is_name
from torchlint.semantic.values.inferred import inferred
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


OF_ITSELF = """class Net({base}):
    def forward(self, x):
        probe({of})

    {own}


model = Net().cuda()
"""


@pytest.mark.parametrize(
    ("base", "of", "own", "kind"),
    [
        ("nn.Module", "next(self.parameters())", "", "tensor"),
        ("nn.Module", "next(iter(self.buffers()))", "", "tensor"),
        ("nn.Module", "list(self.parameters())[0]", "", "tensor"),
        ("nn.Module", "next(self.named_parameters())[1]", "", "tensor"),
        (
            "nn.Module",
            "next(self.parameters())",
            "def parameters(self): return iter([3])",
            "number",
        ),
        ("object", "next(self.parameters())", "", "?"),
        ("Unseen", "next(self.parameters())", "", "?"),
    ],
)
def test_the_weights_of_the_network_itself(base: str, of: str, own: str, kind: str) -> None:
    found = value_of(OF_ITSELF.format(base=base, of=of, own=own))
    assert (found.kind, found.device) == (kind, "accel" if kind == "tensor" else None)


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


@pytest.mark.parametrize(
    ("test", "kind"),
    [
        ("isinstance(t, float)", "?"),
        ("isinstance(t, (tuple, list))", "?"),
        ("isinstance(t, str) and t", "?"),
        ("print(t)", "tensor"),
        ("bool(t)", "tensor"),
    ],
)
def test_what_a_test_asks_for_its_class_may_be_another(test: str, kind: str) -> None:
    found = module(f"def f(t: torch.Tensor):\n    if {test}:\n        return 0\n    return t + 1\n")
    asked = next(each for each in found.nodes(cst.Call) if each.args)
    assert inferred(found, asked.args[0].value).kind == kind
    added = found.nodes(cst.BinaryOperation)[0]
    assert inferred(found, added.left).kind == "tensor"


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("array * unknown", "?"),
        ("unknown - array", "?"),
        ("(array + unknown) / 2", "?"),
        ("array * 2", "ndarray"),
        ("array * array", "ndarray"),
        ("array - np.random.beta(1, 2)", "ndarray"),
        ("np.random.beta(10, 10)", "number"),
        ("np.random.rand()", "number"),
        ("np.random.uniform(0.5, 1.5)", "number"),
        ("np.random.beta(10, 10, 4)", "ndarray"),
        ("np.random.beta(array, 10)", "ndarray"),
        ("np.random.uniform(size=4)", "ndarray"),
        ("np.random.rand(*shape)", "ndarray"),
    ],
)
def test_an_array_and_what_is_not_known_may_be_a_tensor(expression: str, kind: str) -> None:
    source = f"def f(unknown, shape):\n    array = np.zeros(4)\n    probe({expression})\n"
    assert value_of(source).kind == kind


@pytest.mark.parametrize(
    ("layer", "given", "device"),
    [
        ("nn.ZeroPad2d(2)", "unknown", None),
        ("nn.Softmax(dim=1)", "unknown", None),
        ("nn.Upsample(scale_factor=2)", "torch.rand(1, 1, 8, 8)", CPU),
        ("nn.ReLU()", "torch.rand(4).cuda()", CUDA),
        ("nn.ReLU().cuda()", "unknown", CUDA),
        ("nn.Conv2d(1, 1, 3).to(device)", "unknown", ACCEL),
    ],
)
def test_a_layer_without_weights_works_where_its_input_lies(
    layer: str, given: str, device: str | None
) -> None:
    source = f"def f(unknown, device):\n    layer = {layer}\n    probe(layer({given}))\n"
    assert value_of(source).device == device


TABLE = """
class Table(nn.Module):
    def __init__(self, size: int):
        super().__init__()
        self.size = size
        {}

    def forward(self, t):
        return {}

class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = Table(4)

    def forward(self, t):
        probe(self.table(t))
"""


@pytest.mark.parametrize(
    ("made", "given", "graph"),
    [
        ("self.limit = 2.0", "torch.sin(t * torch.arange(4, device=t.device))", None),
        ("pass", "torch.sin(t) / self.size", None),
        ("self.register_buffer('kept', torch.ones(4))", "torch.outer(t, self.kept)", None),
        ("self.layer = nn.Linear(4, 4)", "self.layer(t)", True),
        ("self.weight = nn.Parameter(torch.ones(4))", "t * self.weight", True),
        ("self.part = build(size)", "self.part(t)", True),
    ],
)
def test_a_network_without_weights_adds_no_graph(made: str, given: str, graph: bool | None) -> None:
    assert value_of(TABLE.format(made, given)).grad is graph


@pytest.mark.parametrize(
    ("line", "held", "kind"),
    [
        ("library.optim.AdamW(net.parameters())", "library.optim", "?"),
        ("self.library.optim.Lion(net.parameters())", "self.library.optim", "?"),
        ("self.optim.step()", "self.optim", "optimizer"),
        ("self.optim.param_groups", "self.optim", "optimizer"),
    ],
)
def test_what_holds_classes_is_no_optimizer(line: str, held: str, kind: str) -> None:
    found = module(f"class A:\n    def f(self, net, library):\n        {line}\n")
    nodes = (each for each in found.nodes(cst.Attribute) if dotted_text(each) == held)
    assert inferred(found, next(nodes)).kind == kind


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        ("spaces.Box", "?"),
        ("gymnasium.Space", "?"),
        ("PIL.Image.Image", "?"),
        ("torch.Tensor", "tensor"),
        ("Whatever", "tensor"),
    ],
)
def test_a_class_of_another_library_is_no_tensor(annotation: str, kind: str) -> None:
    source = (
        "import gymnasium, PIL\nfrom gymnasium import spaces\n"
        f"def f(space: {annotation}):\n    probe(space)\n    return space.dtype\n"
    )
    assert value_of(source).kind == kind


@pytest.mark.parametrize(
    ("use", "kind"),
    [("model.__name__", "?"), ("model.__class__.__name__", "module"), ("model.name", "module")],
)
def test_what_has_a_name_of_python_is_a_class(use: str, kind: str) -> None:
    assert value_of(f"def f(model):\n    print({use})\n    probe(model)\n").kind == kind


@pytest.mark.parametrize(
    ("call", "kind"),
    [("step(x, times[0])", "?"), ("step(x, t=x.sum())", "?"), ("step(x, 0.5)", "number")],
)
def test_an_annotation_is_not_believed_against_the_calls(call: str, kind: str) -> None:
    source = (
        "def step(x, t: float):\n    probe(t)\n"
        f"def run(x: torch.Tensor):\n    times = torch.linspace(0, 1, 5)\n    return {call}\n"
    )
    assert value_of(source).kind == kind


@pytest.mark.parametrize(("loop", "kind"), [("tqdm(times)", "tensor"), ("other(times)", "?")])
def test_steps_with_or_without_a_bar_are_the_same(loop: str, kind: str) -> None:
    source = (
        "from tqdm import tqdm\ndef run(shown):\n    times = torch.linspace(0, 1, 5)\n"
        f"    if shown:\n        times = {loop}\n    for t in times:\n        probe(t)\n"
    )
    assert value_of(source).kind == kind


@pytest.mark.parametrize(
    ("lines", "device"),
    [
        ("for p in net.parameters():\n        probe(p)", None),
        ("n = sum(probe(p).numel() for p in net.parameters())", None),
        ("net.to(device)\n    for p in net.parameters():\n        probe(p)", None),
        ("net = net.cuda()\n    for p in net.parameters():\n        probe(p)", ACCEL),
        (
            "for x in loader:\n        net(x)\n        for p in net.parameters():\n"
            "            probe(p)",
            ACCEL,
        ),
    ],
)
def test_a_network_that_is_made_here_may_move_later(lines: str, device: str | None) -> None:
    source = f"def f(loader, device):\n    net = build(loader)\n    {lines}\n"
    assert value_of(source).device == device


def test_a_network_that_comes_in_has_its_place() -> None:
    source = "def f(net: nn.Module):\n    for p in net.parameters():\n        probe(p)\n"
    assert value_of(source).device == ACCEL


@pytest.mark.parametrize(
    ("given", "device"),
    [("labels, net(x.cuda())", None), ("net(x), net(x)", ACCEL), ("unknown, x", ACCEL)],
)
def test_a_place_of_which_the_calls_do_not_say_the_same(given: str, device: str | None) -> None:
    first, second = given.split(", ")
    source = (
        "def boxes(rows):\n    cells = torch.arange(4)\n"
        "    probe(cells.to(rows.device))\n    return rows.exp()\n"
        "def f(net: nn.Module, x, unknown):\n    labels = torch.zeros(4)\n"
        f"    boxes({first})\n    boxes({second})\n"
    )
    assert value_of(source).device == device


MOVED = """
class Agent:
    def __init__(self, net):
        self.net = net
        self.device = torch.device("cpu")
        {}

    def {}(self, device: torch.device):
        self.device = device

    def act(self, noise):
        probe(self.device)
"""


@pytest.mark.parametrize(
    ("first", "name", "device"),
    [
        ("self.to(self.device)", "to", None),
        ("self.to(torch.device('cpu'))", "to", None),
        ("self.placed(self.device)", "placed", CPU),
    ],
)
def test_who_moves_an_object_is_in_another_file(first: str, name: str, device: str | None) -> None:
    assert value_of(MOVED.format(first, name)).device == device


def test_a_function_of_torch_that_makes_a_mask_for_blocks_gives_no_tensor() -> None:
    source = (
        "from torch.nn.attention.flex_attention import create_block_mask, flex_attention\n"
        "def f(q: torch.Tensor):\n    mask = create_block_mask(causal, 1, 1, 8, 8, device='cuda')\n"
        "    probe({})\n"
    )
    assert value_of(source.format("mask")).kind == "?"
    assert value_of(source.format("flex_attention(q, q, q, block_mask=mask)")).kind == "tensor"


def test_torch_is_no_tensor() -> None:
    found = module("def f(x, y):\n    isinstance(x, torch.Tensor)\n    return torch.bmm(x, y)\n")
    names = [node for node in found.nodes(cst.Name) if node.value == "torch"]
    assert {inferred(found, node).kind for node in names} == {"?"}


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


CHOICE = """
def select():
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")

def select_text():
    return "cuda" if torch.cuda.is_available() else "mps" if has_mps() else "cpu"

def f(x: torch.Tensor, config, args, cfg: dict):
    probe(x.to({}))
"""


@pytest.mark.parametrize(
    ("device", "where"),
    [
        ("select()", ACCEL),
        ("torch.device(select_text())", ACCEL),
        ("config.get('device', 'cuda')", ACCEL),
        ("config['train'].get('device')", ACCEL),
        ("args.get('cuda_device', 0)", ACCEL),
        ("torch.device('cpu')", CPU),
        ("config.get('dtype')", None),
        ("config.get('place', 'somewhere')", None),
    ],
)
def test_a_device_may_be_chosen_of_three_or_be_an_option(device: str, where: str | None) -> None:
    assert value_of(CHOICE.format(device)).device == where


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("mask.nonzero(as_tuple=False)", "tensor"),
        ("torch.nonzero(mask, as_tuple=False)", "tensor"),
        ("mask.nonzero()", "tensor"),
        ("mask.nonzero(as_tuple=True)", "tuple"),
        ("torch.nonzero(mask, as_tuple=True)", "tuple"),
        ("mask.nonzero(as_tuple=unknown)", "tuple"),
    ],
)
def test_positions_are_a_tuple_where_that_is_asked(expression: str, kind: str) -> None:
    source = f"def f(x: torch.Tensor, unknown):\n    mask = x > 0\n    probe({expression})\n"
    assert value_of(source).kind == kind


@pytest.mark.parametrize(
    ("use", "kind"),
    [
        ("kept['sums'][k].item()", "?"),
        ("kept['sums'][k].detach()", "?"),
        ("kept['sums'][k] / n", "number"),
    ],
)
def test_what_has_methods_of_tensors_is_no_number(use: str, kind: str) -> None:
    found = module(
        "def f(names, n):\n    kept = {'sums': {k: 0.0 for k in names}, 'best': None}\n"
        f"    for k in names:\n        print({use})\n"
    )
    held = next(each for each in found.nodes(cst.Subscript) if not is_name(each.value, "kept"))
    assert inferred(found, held).kind == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("model_eval_history", "?"),
        ("net_results", "?"),
        ("model_logs", "?"),
        ("model_metrics", "?"),
        ("model_a", "module"),
        ("eval_model", "module"),
    ],
)
def test_what_is_kept_of_a_model_is_none(name: str, kind: str) -> None:
    assert value_of(f"def f({name}):\n    probe({name})\n").kind == kind


@pytest.mark.parametrize(
    ("annotation", "kind", "device"),
    [
        ("List[torch.Tensor]", "tensor", ACCEL),
        ("tuple[torch.Tensor, torch.Tensor]", "tensor", ACCEL),
        ("list[int]", "number", None),
        ("list", "?", None),
    ],
)
def test_a_list_of_tensors_lies_where_a_networks_inputs_do(
    annotation: str, kind: str, device: str | None
) -> None:
    source = (
        "from typing import List\nclass Loss(nn.Module):\n"
        f"    def forward(self, scales: {annotation}, x):\n"
        "        for scale in scales:\n            probe(scale)\n        return x.cuda()\n"
    )
    found = value_of(source)
    assert (found.kind, found.device) == (kind, device)


def test_a_list_of_tensors_of_no_network_lies_anywhere() -> None:
    source = "def f(scales: list[torch.Tensor]):\n    probe(scales[0])\n"
    assert value_of(source).device is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("img_id", "?"),
        ("image_sizes", "?"),
        ("img_metas", "?"),
        ("images", "tensor"),
        ("ids", "tensor"),
    ],
)
def test_numbers_and_sizes_of_pictures_are_the_collate_functions(name: str, kind: str) -> None:
    source = f"def f(loader: DataLoader):\n    for x, {name} in loader:\n        probe({name})\n"
    assert value_of(source).kind == kind


def test_a_loop_that_binds_nothing_is_no_fault() -> None:
    loop = "for () in losses.items():\n        pass"
    source = f"def f(losses):\n    {loop}\n    losses['a'].backward()\n    probe(losses['a'])\n"
    assert value_of(source).kind == "?"


BRINGS = """
def bring(thing, device):
    if isinstance(thing, dict):
        {mapping}
    if isinstance(thing, (list, tuple)):
        return type(thing)(bring(each, device) for each in thing)
    return thing.to(device) if torch.is_tensor(thing) else thing

"""
IN_PLACE = (
    "for key in thing:\n            thing[key] = bring(thing[key], device)\n        return thing"
)
TRAINS = """
def train(net: nn.Module, dataset):
    for batch in DataLoader(dataset):
        batch = bring(batch, torch.device({there!r}))
        probe(batch["label"] == 1)
"""
MAPPINGS = ["return {k: bring(v, device) for k, v in thing.items()}", IN_PLACE]


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize(("there", "expected"), [("cuda", CUDA), ("cpu", CPU)])
def test_what_a_function_brings_to_a_device_part_by_part_lies_there(
    mapping: str, there: str, expected: str
) -> None:
    loader = "from torch.utils.data import DataLoader\n"
    source = loader + BRINGS.format(mapping=mapping) + TRAINS.format(there=there)
    assert value_of(source).device == expected


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_what_another_file_brings_to_a_device_part_by_part_lies_there(
    mapping: str, tmp_path: Path
) -> None:
    head = "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n"
    files = {
        "moves.py": "import torch\n" + BRINGS.format(mapping=mapping),
        "train.py": f"{head}from moves import bring\n{TRAINS.format(there='cuda')}",
    }
    assert probed(tmp_path, files).device == CUDA


def test_a_function_that_moves_the_whole_alone_says_nothing_of_its_parts() -> None:
    source = """
def bring(thing, device):
    return thing.to(device) if torch.is_tensor(thing) else thing

def train(net: nn.Module, unknown):
    probe(bring(unknown, torch.device("cuda"))["label"])
"""
    assert value_of(source).device is None


@pytest.mark.parametrize(
    ("holds", "given", "expected"),
    [
        ("self.margin = 1.0", "net(x.to(args.device))", ACCEL),
        ("self.margin = 1.0", "net(x).cpu()", CPU),
        ("self.margin = nn.Parameter(torch.ones(1))", "net(x.to(args.device))", ACCEL),
    ],
)
def test_a_loss_computes_where_its_inputs_lie(holds: str, given: str, expected: str) -> None:
    source = f"""
class Margin(nn.Module):
    def __init__(self):
        super().__init__()
        {holds}

    def forward(self, a):
        return torch.relu(a + self.margin).mean()

def train(net: nn.Module, x, args):
    margin = Margin()
    probe(margin({given}))
"""
    assert value_of(source).device == expected


LIMBS = """
def lengths(x):
    limbs = x[:, :, 1:, :]
    probe(x)
    return torch.norm(limbs[..., 0] - limbs[..., 1], dim=-1)

def {caller}(x):
    return lengths(x).var()
"""


@pytest.mark.parametrize(
    ("caller", "expected"), [("limb_loss", ACCEL), ("loss_of_limbs", ACCEL), ("summary", None)]
)
def test_what_helpers_of_losses_cut_along_several_axes_is_a_tensor(
    caller: str, expected: str | None
) -> None:
    found = value_of(LIMBS.format(caller=caller))
    assert (found.tensor, found.device) == (expected is not None, expected)


def test_what_a_loss_takes_apart_by_one_index_may_be_a_list() -> None:
    source = "def lengths(x):\n    probe(x)\n    return torch.norm(x[0] - x[1])\n"
    assert not value_of(source + "\ndef limb_loss(x):\n    return lengths(x)\n").tensor
