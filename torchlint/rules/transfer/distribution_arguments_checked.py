"""Do not have the host check a distribution's arguments in every step

## Why
A distribution of `torch.distributions` checks on the host that its arguments are valid, and
`log_prob` that the values are: each check reads one truth value from the device, and waits for all
kernels queued so far (`torch/distributions/distribution.py`: `if not torch._is_all_true(valid):
raise`). The documentation of `Distribution.set_default_validate_args` says that validation may be
expensive, and to switch it off once a model works.

Flagged: a distribution that is made of tensors on the device in a training step, without
`validate_args=`. An `info` in a forward pass, an evaluation or where something acts, and where the
step waits for something else as well: while it does, the host does not run ahead. Silent where
a file of the project calls `set_default_validate_args`, and where it allows torch before 1.8 alone,
which checked nothing unasked. In the same way `torch.normal` with deviations on the device: up to
torch 2.13 the host reads whether one of them is negative.

## Setup
```python
import torch
from torch import nn
from torch.distributions import Normal

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
policy = nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
```

## Bad
```python
def train(loader):
    for state, action, gain in loader:
        drawn = Normal(policy(state), 1.0)
        loss = -(drawn.log_prob(action) * gain).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
```

## Good
```python
def train(loader):
    for state, action, gain in loader:
        drawn = Normal(policy(state), 1.0, validate_args=False)
        loss = -(drawn.log_prob(action) * gain).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
```

## Leave alone
It is checked once, before the loop.
```python
prior = Normal(torch.zeros(2, device=device), torch.ones(2, device=device))
```

What lies on the host is checked there.
```python
def noise(loader):
    for state, _, _ in loader:
        spread = torch.ones(4)
        policy(state + Normal(torch.zeros(4), spread).sample().to(device)).sum().backward()
```

## Fix safety
Unsafe: invalid arguments, such as NaN of a training that diverges, no longer raise.

## Measure
An epoch of 16 small steps, on batches that are on the device beforehand.
```python
loader = [(torch.randn(64, 4, device=device), torch.randn(64, 2, device=device), 1.0) for _ in range(16)]
```

```python
train(loader)
```
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import (
    Fix,
    Hit,
    Module,
    Replace,
    Rule,
    Safety,
    Severity,
    heat_of,
    keyword_argument,
    on_device,
    with_keyword,
)
from torchlint.semantic.code.named_tests import Holds
from torchlint.semantic.code.scopes import is_compiled
from torchlint.semantic.code.tree import argument_for, has_star
from torchlint.semantic.code.versions import before_torch
from torchlint.semantic.code.wording import Wording
from torchlint.semantic.project.asked import said_somewhere
from torchlint.semantic.torch.spelling import ACTS, called
from torchlint.semantic.uses.unavoidable_syncs import waits_besides

_CHECKING = {
    "normal": "Normal",
    "categorical": "Categorical",
    "bernoulli": "Bernoulli",
    "beta": "Beta",
    "dirichlet": "Dirichlet",
    "gamma": "Gamma",
    "laplace": "Laplace",
    "log_normal": "LogNormal",
    "uniform": "Uniform",
    "exponential": "Exponential",
    "multivariate_normal": "MultivariateNormal",
    "one_hot_categorical": "OneHotCategorical",
    "poisson": "Poisson",
    "studentT": "StudentT",
}
"""Classes that check their own arguments, by the file of torch 2.13 that defines them."""
_CALLS = tuple(
    f"torch.distributions.{name}"
    for file, cls in _CHECKING.items()
    for name in (cls, f"{file}.{cls}")
)
_CHECKS = (1, 8)
"""The first torch in which distributions check their arguments unasked (its release notes)."""
_SWITCHED = Holds(
    Wording(
        regex(r"set_default_validate_args|\b_validate_args\s*="),
        ("set_default_validate_args", "_validate_args"),
    )
)
_NOTE = "Invalid arguments, such as NaN of a training that diverges, no longer raise."
_LEFT_OUT = "pass validate_args=False."
_DRAWN = (
    "mean + std * noise draws the same, with the noise of torch.randn or randn_like (detach both "
    "where no gradient is to flow)."
)
_BOTH = (
    "`{made}` checks its arguments on the host, and waits for the device; {advice} `{other}` waits "
    "as well; while it does, the host does not run ahead."
)

rule = Rule(
    __name__,
    __doc__,
    code="TL116",
    message=(
        "`{made}` checks its arguments on the host in every step, and waits for the device; "
        "{advice}"
    ),
    severity="warning",
    default=True,
    effect="wait",
    triggers=(b"distributions", b"normal("),
    equivalence="bitwise",
    runs="step",
)


@rule.call(*_CALLS)
def check(node: cst.Call, module: Module) -> Iterator[Hit]:
    if has_star(node) or keyword_argument(module, node, "validate_args") is not None:
        return
    given = [arg.value for arg in node.args[:3]]
    if not any(on_device(module, each) is True for each in given) or is_compiled(module, node):
        return
    if said_somewhere(module, _SWITCHED) or before_torch(module, _CHECKS):
        return
    new = with_keyword(node, "validate_args", cst.Name("False"))
    fix = Fix((Replace(node, new),), Safety.UNSAFE, "Leave the check out", _NOTE)
    yield _hit(module, node, _LEFT_OUT, fix)


@rule.call("torch.normal")
def check_deviations(node: cst.Call, module: Module) -> Iterator[Hit]:
    """Find draws with deviations on the device, of which the host asks whether one is negative
    (torch up to 2.13, ATen/native/DistributionTemplates.h)."""
    deviations = argument_for(node, 1, "std")
    if deviations is None or on_device(module, deviations) is not True:
        return
    if not is_compiled(module, node):
        yield _hit(module, node, _DRAWN)


def _hit(module: Module, node: cst.Call, advice: str, fix: Fix | None = None) -> Hit:
    words = {"made": module.shown(node), "advice": advice}
    others = waits_besides(module, node, (), likely=True)
    if others:
        words["other"] = module.shown(others[0])
        return Hit(node, words, fix, severity=Severity.INFO, message=_BOTH)
    function = module.function(node)
    acts = function is not None and called(function.name.value, ACTS)  # The environment waits.
    train = heat_of(module, node).train and not acts
    return Hit(node, words, fix, None if train else Severity.INFO)
