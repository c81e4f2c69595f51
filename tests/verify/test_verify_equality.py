"""Two runs are compared in everything a caller can see, and what differs is named."""

from __future__ import annotations

import collections
import dataclasses
import enum
import json
import math
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torchlint.verify  # noqa: E402
from torchlint.verify.inside.equality import compare, compare_files  # noqa: E402
from torchlint.verify.inside.snapshot import random_states, seed, snapshot  # noqa: E402

INSIDE = Path(torchlint.verify.__file__).parent / "inside"
NAN = math.nan


@dataclasses.dataclass
class Output:
    loss: Any
    name: str = "n"


class Mode(enum.Enum):
    A = 1
    B = 2


class Holder:
    def __init__(self, value: object) -> None:
        self.value = value
        self.me = self


class Slots:
    __slots__ = ("x",)


def linear(fill: float) -> Any:
    layer = torch.nn.Linear(2, 2)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(fill)
    return layer


def with_grad(gradient: float) -> Any:
    leaf = torch.ones(2, requires_grad=True)
    (leaf * gradient).sum().backward()
    return leaf


def adam(**options: Any) -> Any:
    layer = linear(1.0)
    optimizer = torch.optim.Adam(layer.parameters(), **options)
    layer(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    return optimizer


def compared(a: object, b: object, **options: Any) -> dict[str, Any]:
    return compare(snapshot({"out": a}), snapshot({"out": b}), **options)


SAME: dict[str, tuple[object, object]] = {
    "tensor": (torch.arange(3.0), torch.arange(3.0)),
    "nan": (torch.tensor([NAN, 1.0]), torch.tensor([NAN, 1.0])),
    "float nan": (NAN, NAN),
    "nested": ({"a": [torch.ones(2), (1, None)]}, {"a": [torch.ones(2), (1, None)]}),
    "dataclass": (Output(torch.ones(1)), Output(torch.ones(1))),
    "array": (np.ones(3), np.ones(3)),
    "array without a torch dtype": (np.array(["a"]), np.array(["a"])),
    "array of objects": (np.array([None, "b"]), np.array([None, "b"])),
    "module": (linear(1.0), linear(1.0)),
    "optimizer, other implementation": (adam(foreach=False), adam(foreach=True)),
    "set": ({"b", "a"}, {"a", "b"}),
    "cycle": (Holder(1.0), Holder(1.0)),
    "object without a dict": (Slots(), Slots()),
    "function": (len, len),
    "sparse": (torch.eye(3).to_sparse(), torch.eye(3).to_sparse()),
    "meta": (torch.ones(2, device="meta"), torch.ones(2, device="meta")),
    "nothing": (torch.ones(0, 3), torch.ones(0, 3)),
    "bfloat16": (torch.ones(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.bfloat16)),
    "complex": (torch.ones(2) * 1j, torch.ones(2) * 1j),
    "complex number": (1j, 1j),
    "bytes": (b"abc", b"abc"),
    "dtype": (torch.float32, torch.float32),
    "stride of a dimension of one": (torch.ones(1, 3), torch.ones(3, 1).t()),
}
APART: dict[str, tuple[object, object, str]] = {
    "dtype": (torch.ones(2), torch.ones(2).double(), "out: torch.float32 and torch.float64"),
    "shape": (torch.ones(2), torch.ones(2, 1), "out: shape (2,) and shape (2, 1)"),
    "values": (
        torch.zeros(3),
        torch.tensor([0.0, 0.0, 2.5]),
        "out: 1 of 3 numbers differ, by up to 2.5",
    ),
    "one number": (torch.tensor(1.0), torch.tensor(2.0), "out: 1.0 and 2.0"),
    "nan on one side": (
        torch.ones(2),
        torch.tensor([1.0, NAN]),
        "out: NaN or infinity on one side only",
    ),
    "device": (torch.ones(2), torch.ones(2, device="meta"), "out: cpu and meta"),
    "kind": (1.0, torch.tensor(1.0), "out: float and Tensor"),
    "int and float": (1, 1.0, "out: int and float"),
    "int and bool": (1, True, "out: int and bool"),
    "int": (1, 2, "out: 1 and 2"),
    "large int": (2**70, 2**70 + 1, "out: 1180591620717411303424 and 1180591620717411303425"),
    "float": (1.0, 1.1, "out: 1.0 and 1.1"),
    "text": ("a\nb", "c", "out: a b and c"),
    "long text": ("a" * 100, "c", f"out: {'a' * 77}... and c"),
    "enum": (Mode.A, Mode.B, "out: Mode.A and Mode.B"),
    "bytes": (b"abc", b"abd", "out: 3 bytes, ba7816bf8f01cfea and 3 bytes, a52d159f262b2c6d"),
    "length": ([1, 2], [1], "out: 2 items and 1 items"),
    "keys": ({"a": 1}, {"b": 1}, "out: 'a' and 'b'"),
    "container": ([1], (1,), "out: list and tuple"),
    "dict class": ({"a": 1}, collections.OrderedDict(a=1), "out: dict and OrderedDict"),
    "nested": ({"a": [1, torch.ones(1)]}, {"a": [1, torch.zeros(1)]}, "out['a'][1]: 1.0 and 0.0"),
    "dataclass": (Output(1.0), Output(2.0), "out.loss: 1.0 and 2.0"),
    "namespace": (SimpleNamespace(a=1), SimpleNamespace(a=2), "out.a: 1 and 2"),
    "object": (Holder(1.0), Holder(2.0), "out.value: 1.0 and 2.0"),
    "array": (np.ones(2), np.zeros(2), "out: 2 of 2 numbers differ, by up to 1"),
    "array dtype": (np.ones(2), np.ones(2, dtype=np.float32), "out: float64 and float32"),
    "array text": (np.array(["a"]), np.array(["b"]), "out: "),
    "module": (linear(1.0), linear(1.5), "out.weight: 4 of 4 numbers differ, by up to 0.5"),
    "module mode": (linear(1.0), linear(1.0).eval(), "out: training=True and training=False"),
    "gradient": (with_grad(1.0), with_grad(3.0), "out.grad: 2 of 2 numbers differ, by up to 2"),
    "no gradient": (
        with_grad(1.0),
        torch.ones(2, requires_grad=True),
        "out.grad: only in the original run",
    ),
    "optimizer": (adam(lr=0.1), adam(lr=0.2), "out.param_groups[0]['lr']: 0.1 and 0.2"),
    "set": ({1}, {2}, "out: ['1'] and ['2']"),
    "sparse": (
        torch.eye(3).to_sparse(),
        (torch.eye(3) * 2).to_sparse(),
        "out.values(): 3 of 3 numbers differ",
    ),
    "generator": (
        torch.Generator().manual_seed(1),
        torch.Generator().manual_seed(2),
        "out.get_state(): ",
    ),
    "complex": (1j, 2j, "out: 1j and 2j"),
}


@pytest.mark.parametrize("pair", SAME.values(), ids=SAME)
def test_the_same_is_bitwise(pair: tuple[object, object]) -> None:
    result = compared(*pair)
    assert (result["level"], result["notes"], result["max_abs"]) == ("bitwise", [], 0.0)


@pytest.mark.parametrize("case", APART.values(), ids=APART)
def test_what_differs_is_named(case: tuple[object, object, str]) -> None:
    before, after, note = case
    result = compared(before, after)
    assert result["level"] == "different"
    assert result["notes"][0].startswith(note)


@pytest.mark.filterwarnings("ignore")  # torch announces these two
def test_rare_layouts() -> None:
    def quantized(value: float) -> Any:
        return torch.quantize_per_tensor(torch.full((2,), value), 0.1, 0, torch.qint8)

    assert (
        compared(torch.eye(3).to_sparse_csr(), torch.eye(3).to_sparse_csr())["level"] == "bitwise"
    )
    assert (
        compared(torch.eye(3).to_sparse_csr(), torch.eye(3).mul(2).to_sparse_csr())["level"]
        == "different"
    )
    assert compared(quantized(1.0), quantized(1.0))["level"] == "bitwise"
    assert compared(quantized(1.0), quantized(2.0))["level"] == "different"


FACTS = {
    "stride": (torch.ones(3, 2), torch.ones(2, 3).t(), "out: stride [2, 1] and [1, 3]"),
    "requires_grad": (
        torch.ones(1),
        torch.ones(1, requires_grad=True),
        "out: requires_grad False and True",
    ),
    "is_leaf": (
        with_grad(1.0) * 1,
        torch.ones(2, requires_grad=True),
        "out: is_leaf False and True",
    ),
    "zero gradient": (
        with_grad(0.0),
        torch.ones(2, requires_grad=True),
        "out.grad: zeros in the original run, else None",
    ),
    "class": (
        torch.ones(1),
        torch.nn.Parameter(torch.ones(1), False),
        "out: type Tensor and Parameter",
    ),
}


@pytest.mark.parametrize("case", FACTS.values(), ids=FACTS)
def test_facts_besides_the_values_are_noted(case: tuple[object, object, str]) -> None:
    before, after, note = case
    result = compared(before, after)
    assert (result["level"], result["facts"], result["notes"]) == ("bitwise", [note], [note])


@pytest.mark.parametrize(
    ("before", "after", "level"),
    [
        (torch.ones(2), torch.ones(2) + 1.2e-7, "close"),
        (torch.ones(2), torch.ones(2) + 1e-4, "different"),
        (torch.ones(2).double(), torch.ones(2).double() + 1e-6, "different"),
        (torch.ones(2).bfloat16(), torch.tensor([1.0, 1.0078125]).bfloat16(), "close"),
        (torch.zeros(2), -torch.zeros(2), "close"),
        (0.3, 0.1 + 0.2, "close"),
        (1.0, 1.0000001, "close"),
        (1.0, 1.001, "different"),
        (torch.tensor([1]), torch.tensor([2]), "different"),
    ],
)
def test_close_follows_the_dtype(before: object, after: object, level: str) -> None:
    assert compared(before, after)["level"] == level


def test_the_largest_difference_is_given_by_name() -> None:
    before = snapshot({"loss": [1.0, 2.0], "weights": {"w": torch.ones(2)}})
    after = snapshot({"loss": [1.0, 2.5], "weights": {"w": torch.tensor([1.0, 4.0])}})
    result = compare(before, after)
    assert result["max_abs"] == 3.0
    assert result["max_abs_by_name"] == {"loss": 0.5, "weights": 3.0}


def test_a_difference_without_a_bound_has_no_number() -> None:
    assert compared(torch.ones(2), torch.tensor([1.0, math.inf]))["max_abs"] is None


def test_what_the_original_does_to_itself_widens_the_band() -> None:
    assert compared(torch.ones(2), torch.ones(2) + 0.01)["level"] == "different"
    assert compared(torch.ones(2), torch.ones(2) + 0.01, band=0.03)["level"] == "close"


def drawn(number: int, count: int = 5000) -> Any:
    return torch.randn(count, generator=torch.Generator().manual_seed(number))


@pytest.mark.parametrize(
    ("after", "level"),
    [
        (drawn(1), "same distribution, different random numbers"),
        (drawn(1) + 0.5, "different"),
        (drawn(1) * 1.5, "different"),
        (drawn(1, 4999), "different"),
        (drawn(1).double(), "different"),
        (torch.zeros(5000), "different"),
        (torch.full((5000,), NAN), "different"),
    ],
)
def test_redrawn_numbers_are_compared_as_samples(after: Any, level: str) -> None:
    assert compared(drawn(0), after, redrawn=True)["level"] == level
    assert compared(drawn(0), after)["level"] == "different"


def test_few_redrawn_numbers_are_said_to_be_too_few() -> None:
    result = compared(drawn(0, 3), drawn(1, 3), redrawn=True)
    assert result["level"] == "same distribution, different random numbers"
    assert result["notes"] == ["out: too few numbers to compare how they are distributed"]


@pytest.mark.parametrize(
    ("draw", "generator"),
    [(lambda: torch.rand(1), "torch"), (random.random, "Python"), (np.random.random, "NumPy")],
)
def test_a_generator_that_ends_elsewhere_is_named(draw: Any, generator: str) -> None:
    kept = torch.get_rng_state(), random.getstate(), np.random.get_state()
    try:
        seed(0)
        before = snapshot({"out": 1}, random_states())
        seed(0)
        draw()
        result = compare(before, snapshot({"out": 1}, random_states()))
    finally:
        torch.set_rng_state(kept[0])
        random.setstate(kept[1])
        np.random.set_state(kept[2])
    assert result["level"] == "same distribution, different random numbers"
    assert result["rng_changed"] is True
    assert result["notes"] == [f"random numbers: the {generator} generator ends in another state"]


def test_names_of_one_side_can_be_left_out() -> None:
    before, after = snapshot({"a": 1, "b": [1]}), snapshot({"a": 1, "c": [1]})
    assert compare(before, after)["level"] == "different"
    assert compare(before, after, shared=True)["level"] == "bitwise"
    assert compare(before, snapshot({"a": 1, "b": [2], "c": 0}), shared=True)["different"] == [
        "b[0]|text"
    ]


def test_a_value_may_lie_elsewhere_where_that_is_what_a_fix_does() -> None:
    before, after = snapshot({"out": torch.ones(2)}), snapshot({"out": torch.ones(2)})
    after["values"]["out"]["device"] = "cuda"
    strict, free = compare(before, after), compare(before, after, anywhere=True)
    assert (strict["level"], strict["notes"]) == ("different", ["out: cpu and cuda"])
    assert (free["level"], free["facts"]) == ("bitwise", ["out: device cpu and cuda"])
    after["values"]["out"]["value"] += 1
    assert compare(before, after, anywhere=True)["level"] == "different"


def test_many_differences_are_counted() -> None:
    notes = compared(list(range(30)), list(range(1, 31)))["notes"]
    assert len(notes) == 13
    assert notes[-1] == "and 18 more differences"


def test_equal_differences_under_one_name_share_a_note() -> None:
    (note,) = compared([0, 0, 0], [1, 1, 1])["notes"]
    assert note.endswith("[0]: 0 and 1 (and 2 more)")


def test_the_tensor_in_a_snapshot_is_a_copy() -> None:
    value = torch.zeros(2)
    before = snapshot({"out": value})
    value += 1
    assert compare(before, snapshot({"out": value}))["level"] == "different"


def reader(fill: float, *, decorated: bool) -> Any:
    kept = torch.full((2,), fill)

    def read() -> Any:
        return kept

    return torch.no_grad()(read) if decorated else read


def test_how_a_library_wraps_a_function_is_not_part_of_it_but_what_it_carries_is() -> None:
    plain = snapshot({"read": reader(1.0, decorated=False)})
    assert compare(plain, snapshot({"read": reader(1.0, decorated=True)}))["level"] == "bitwise"
    other = compare(plain, snapshot({"read": reader(2.0, decorated=True)}))
    assert (other["level"], other["notes"]) == (
        "different",
        ["read.kept: 2 of 2 numbers differ, by up to 1"],
    )


def test_files_are_compared_without_running_code_of_theirs(tmp_path: Path) -> None:
    every = {name: pair[0] for name, pair in SAME.items()}
    torch.save(snapshot(every, random_states()), tmp_path / "a.pt")
    torch.save({"loss": [1.0, 2.0], "w": torch.ones(2)}, tmp_path / "b.pt")
    torch.save({"loss": [1.0, 2.0], "w": torch.zeros(2)}, tmp_path / "c.pt")
    torch.save(SimpleNamespace(), tmp_path / "d.pt")
    torch.save([torch.ones(1)], tmp_path / "e.pt")
    a, b, c, d, e = (str(tmp_path / f"{name}.pt") for name in "abcde")
    assert compare_files(a, a)["level"] == "bitwise"
    assert compare_files(e, e)["level"] == "bitwise"
    assert compare_files(b, c)["notes"] == ["w: 2 of 2 numbers differ, by up to 1"]
    refused = compare_files(b, d)
    assert (refused["level"], refused["max_abs"]) == ("not compared", None)
    assert refused["notes"][0].startswith(f"{d}: ")
    assert compare_files(b, str(tmp_path / "none.pt"))["level"] == "not compared"


def test_an_answer_is_plain_json(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(2)}, tmp_path / "a.pt")
    torch.save({"w": torch.tensor([1.0, NAN])}, tmp_path / "b.pt")
    answer = compare_files(str(tmp_path / "a.pt"), str(tmp_path / "b.pt"))
    assert (answer["level"], answer["max_abs"]) == ("different", None)
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
