"""Run a frozen network once for what does not change

## Why
A network that is never trained gives the same for the same input: running it on one constant input
in each step, or on the same samples in each epoch, computes again what is known. A text encoder, an
image encoder or a teacher is often larger than what is trained. What it gives is computed once,
before the loop, or kept beside the samples. The pages of diffusers' training scripts name
pre-computed text embeddings and latents as what saves time and memory.

Flagged: a call of a network that the function makes, freezes (`requires_grad_(False)`, or
`no_grad`) and hands to nothing that trains it, in a loop of training steps: with the same input in
every step (a warning), or with texts or tokens of the loader's batch, by what they are called, in a
loop over epochs (an `info`), where nothing in the file draws at random. So is a network made by
`from_pretrained` that a `forward` runs under `no_grad` on such texts.

## Setup
```python
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        return self.layer(x)


class Numbers(Dataset):
    def __init__(self):
        self.rows = torch.ones(16, 8)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i], self.rows[i].sum()


torch.manual_seed(0)
prompt = torch.ones(1, 8)
loader = DataLoader(Numbers(), batch_size=4)
head = nn.Linear(4, 1)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
```

## Bad
```python
encoder = Encoder()
encoder.requires_grad_(False)
for x, y in loader:
    words = encoder(prompt)
    loss = (head(words).sum() - y).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
```

## Good
```python
encoder = Encoder()
encoder.requires_grad_(False)
words = encoder(prompt)
for x, y in loader:
    loss = (head(words).sum() - y).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
```

## Leave alone
The network is trained, too.
```python
encoder = Encoder()
everything = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
for x, y in loader:
    loss = (head(encoder(prompt)).sum() - y).pow(2).mean()
    loss.backward()
    everything.step()
    everything.zero_grad()
```

The input is what is trained.
```python
encoder = Encoder()
encoder.requires_grad_(False)
image = torch.ones(1, 8).requires_grad_()
style = torch.optim.SGD([image], lr=0.1)
for x, y in loader:
    loss = encoder(image).pow(2).mean()
    loss.backward()
    style.step()
    style.zero_grad()
```

One epoch meets each sample once.
```python
encoder = Encoder()
encoder.requires_grad_(False)
for x, y in loader:
    loss = (head(encoder(x)).sum(-1) - y).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
```

## Fix safety
No fix is offered: all steps share the output then, so that one that changes it in place changes it
for all, and random layers that are left in training mode draw once. Where the outputs of samples
are to be kept is for you to say.

## Measure
The loop, with a larger network. A gain can be expected on a CPU, too.
```python
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(8, 2048), nn.ReLU(), nn.Linear(2048, 4))

    def forward(self, tokens):
        return self.layer(tokens)


prompt = torch.ones(77, 8)
```
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.rule import Hit, Module, Rule, Severity
from torchlint.rules.training._frozen_network_recomputed.networks import (
    inputs_of,
    is_text,
    never_trained,
    runs_network,
)
from torchlint.semantic.code.reaching import assigned_to
from torchlint.semantic.code.scopes import scopes
from torchlint.semantic.code.tree import attr_of
from torchlint.semantic.time.loops import LoopKind, loop_kind
from torchlint.semantic.values.classes import is_network

_SAMPLES = (
    "{net} is frozen and meets the same samples in every epoch; compute its outputs once and load"
    " them with the samples."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL512",
    message="{net} is frozen and gets the same input in every step; run it once, before the loop.",
    severity="warning",
    default=True,
    effect="gpu",
    triggers=(b"requires_grad", b"no_grad", b"inference_mode"),
    equivalence="rng",
    runs="train",
)


@rule.on(cst.Call, about=lambda module, node: runs_network(node) and node.args)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    net = runs_network(node)
    loops = module.loops(node)
    loop = loops[0] if loops else None
    if net is None or not isinstance(loop, cst.For):
        return
    if loop_kind(module, loop) is not LoopKind.TRAIN or not never_trained(module, net, loop):
        return
    given = inputs_of(module, node, loop)
    names = {"net": net.value}
    if given == {"constant"}:
        yield Hit(node, names)
    elif given <= {"constant", "sample"} and any(
        loop_kind(module, each) is LoopKind.EPOCH for each in loops[1:]
    ):
        yield Hit(node, names, severity=Severity.INFO, message=_SAMPLES)


def _reads_texts(module: Module, node: cst.Call) -> bool:
    """Say whether something pretrained, in a file that has such, may get texts by their name."""
    return (
        "from_pretrained" in module.text
        and bool(attr_of(node.func))
        and any(arg.keyword is not None and is_text(module, arg.keyword.value) for arg in node.args)
    )


@rule.on(cst.Call, runs="anywhere", about=_reads_texts)
def check_texts(node: cst.Call, module: Module) -> Iterator[Hit]:
    """Find a pretrained network in another one that reads texts under ``no_grad``."""
    cls, home = module.class_of(node), module.function(node)
    if cls is None or home is None or home.name.value != "forward" or not is_network(module, cls):
        return
    made = (module.called(each) for each in assigned_to(module, node.func))
    trained = "requires_grad" in module.source(cls) or ".backward(" in module.text
    pretrained = any(name.endswith(".from_pretrained") for name in made)
    if trained and pretrained and scopes(module).lexical_no_grad(node) is True:
        names = {"net": module.shown(node.func)}
        yield Hit(node, names, severity=Severity.INFO, message=_SAMPLES)
