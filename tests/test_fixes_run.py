"""Safe fixes are executed: Bad and Good run on a CPU stand-in for the device and must agree bit for
bit.

The stand-in is a `TorchFunctionMode`: a CUDA target becomes the CPU, and a move to it becomes a
copy, as on a real device. Compared are values, dtype, shape, requires_grad and is_leaf of every
tensor that both bind, plain values with their types, and the state of the random number generator
afterwards.
"""

from __future__ import annotations

import math

import pytest

from tests.checking import fixed, for_rule, rules
from tests.corner_cases import corners_of
from torchlint.base.finding import Safety
from torchlint.catalog.rule_file import RuleInfo
from torchlint.testing.promises import checked, programs

torch = pytest.importorskip("torch")

from tests.executed import differences, execute  # noqa: E402 - it imports torch
from torchlint.verify.inside.standin import StandIn  # noqa: E402 - it imports torch

RULES = rules()


SAFE = [info for info in RULES if Safety.SAFE in info.fixes]
UNSAFE_EXAMPLES = frozenset(("TL105", "TL106", "TL107"))
"""Rules with a safe fix of which no example shows one."""
NOTHING = ["the example binds nothing that could be compared"]
SETTINGS = frozenset(("TL202",))
"""Rules whose corner cases are about where a loader goes: they may bind nothing, unlike the
page."""


def is_safe(program: str, info: RuleInfo) -> bool:
    return any(
        finding.fix is not None and finding.fix.safety is Safety.SAFE
        for finding in for_rule(checked(program), info)
    )


def broken(info: RuleInfo, bad_program: str, good_program: str) -> list[str]:
    """Return what a safe fix changes of the values that both sides bind."""
    bad, bad_rng = execute(bad_program)
    good, good_rng = execute(good_program)
    setup, _ = execute("".join(programs(info, "Setup")[:1]))
    shared = sorted(n for n in bad.keys() & good.keys() if not n.startswith("__"))
    own = [
        n
        for n in shared
        if n not in setup and isinstance(bad[n], torch.Tensor | float | int | list | tuple)
    ]
    if not own:
        return NOTHING
    found = [d for n in shared for d in differences(n, bad[n], good[n])]
    if not torch.equal(bad_rng, good_rng):
        found.append("the random number generator ends in another state")
    return found


@pytest.mark.parametrize("info", SAFE, ids=[info.code for info in SAFE])
def test_safe_fixes_compute_the_same(info: RuleInfo) -> None:
    """The examples of the page and the corner cases."""
    pages = [(info.code, info), *((str(corner), corner.info) for corner in corners_of(info))]
    pairs = [
        (name, page, bad, good)
        for name, page in pages
        for bad, good in zip(programs(page, "Bad"), programs(page, "Good"), strict=False)
        if is_safe(bad, info)
    ]
    assert bool(pairs) == (info.code not in UNSAFE_EXAMPLES)
    wrong = {name: found for name, page, *pair in pairs if (found := broken(page, *pair))}
    if info.code in SETTINGS:
        wrong = {n: found for n, found in wrong.items() if found != NOTHING or n == info.code}
    assert wrong == {}


FACTORY_SOURCES = [
    'y = torch.zeros(2, 3).to("cuda")\n',
    "y = torch.ones(4).cuda()\n",
    'y = torch.eye(3, dtype=torch.float64).to("cuda")\n',
    'y = torch.empty(2, 3).to(device="cuda")\n',
    "y = torch.full((2,), 7).cuda()\n",
    'y = torch.arange(10).to("cuda")\n',
    "y = torch.arange(1, 9, 2, dtype=torch.int32).cuda(0)\n",
    "y = torch.zeros_like(torch.ones(2, dtype=torch.int8)).cuda()\n",
    'y = torch.zeros(3).to("cuda", torch.float16)\n',
    'y = torch.tril_indices(3, 3).to("cuda")\n',
]


@pytest.mark.parametrize("statement", FACTORY_SOURCES)
def test_factories_keep_shape_dtype_and_rng_on_another_device(statement: str) -> None:
    """On ``meta`` a tensor has a device of its own, so that a factory that ignored ``device=``
    would show."""
    source = "import torch\n\nfor step in range(2):\n    model(x).backward()\n    " + statement
    after = fixed(source, "safe", codes=frozenset({"TL102"})).after
    assert "device=" in after, "no safe fix was offered"
    head = "import torch\nmodel = torch.nn.Linear(1, 1)\nx = torch.ones(1)\n"
    (bad, bad_rng), (good, good_rng) = (
        execute(head + code.partition("\n")[2], "meta") for code in (source, after)
    )
    for fact in ("device", "dtype", "shape", "requires_grad", "is_leaf"):
        assert getattr(bad["y"], fact) == getattr(good["y"], fact), fact
    assert good["y"].device.type == "meta"
    assert torch.equal(bad_rng, good_rng)


@pytest.mark.parametrize("info", RULES, ids=[info.code for info in RULES])
def test_bad_and_good_run(info: RuleInfo) -> None:
    for heading in ("Bad", "Good"):
        for example in programs(info, heading):
            names, _ = execute(example)
            assert names


def test_the_stand_in_copies_like_a_device() -> None:
    with StandIn():
        leaf = torch.ones(2, requires_grad=True)
        moved = leaf.cuda()
        assert not moved.is_leaf
        assert torch.zeros(2, device="cuda").device.type == "cpu"
        assert leaf.to("cuda") is not leaf


def test_differences_are_seen() -> None:
    assert differences("x", torch.zeros(2), torch.zeros(2, dtype=torch.float64))
    assert differences("x", torch.zeros(2), torch.ones(2))
    assert differences("x", torch.zeros(2), torch.zeros(2, requires_grad=True))
    assert differences("x", 0, 0.0)
    assert not differences("x", torch.full((2,), math.nan), torch.full((2,), math.nan))
