"""The table of operations says the truth about torch: each row is looked up there, and what can be
tried is tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest

from torchlint.semantic.torch import dtypes, ops

torch: Any = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore")  # of operations that torch has given up

OWNERS: dict[str, Callable[[str], bool]] = {
    "torch": lambda name: reaches(torch, name),
    "linalg": lambda name: reaches(torch.linalg, name),
    "special": lambda name: reaches(torch.special, name),
    "fft": lambda name: reaches(torch.fft, name),
    "nn": lambda name: reaches(torch.nn.functional, name),
    "layer": lambda name: reaches(torch.nn, name),
    "optimizer": lambda name: reaches(torch.optim, name),
    "distributed": lambda name: reaches(torch.distributed, name),
    "aten": lambda name: bool(torch._C._jit_get_schemas_for_operator(f"aten::{name}")),
    "method": lambda name: reaches(torch.Tensor, name),
    "attribute": lambda name: reaches(torch.Tensor, name),
    "module": lambda name: reaches(torch.nn.Module, name),
}
ELSEWHERE = {
    "names",  # of named tensors, which torch has given up
    "has_names",
    "npu.empty_cache",  # of an extension
    "utils.tensorboard.SummaryWriter",  # where tensorboard is installed
    "utils.tensorboard.writer.SummaryWriter",
}
"""What a bare torch 2.13 lacks."""


def reaches(owner: Any, name: str) -> bool:
    """Say whether an object has something under a dotted name."""
    for part in name.split("."):
        owner = getattr(owner, part, None)
    return owner is not None


def of(row: int) -> set[str]:
    """Return the words of a row."""
    return {word for word, rows in ops.WORDS.items() if row in rows}


ROWS = [(name, of(row)) for row, name in enumerate(ops.NAMES)]


def test_each_word_is_explained_and_used() -> None:
    assert ops.WORDS.keys() == ops.FORMS.keys() | ops.FACTS.keys()


def test_each_row_has_a_kind_and_a_form() -> None:
    odd = [
        name for name, words in ROWS if words.isdisjoint(ops.KINDS) or words.isdisjoint(ops.FORMS)
    ]
    assert odd == []


def test_nothing_has_two_rows() -> None:
    places = [(name, form) for name, words in ROWS for form in words & ops.FORMS.keys()]
    assert sorted({place for place in places if places.count(place) > 1}) == []


def test_torch_has_what_the_table_names() -> None:
    missing = [
        (name, form)
        for name, words in ROWS
        for form in words & ops.FORMS.keys()
        if not OWNERS[form](name)
    ]
    assert {name for name, _ in missing} <= ELSEWHERE


def test_a_word_without_a_row_is_refused() -> None:
    with pytest.raises(KeyError):
        ops.having("pointwise", "pointwize")


def test_losses_have_their_classes() -> None:
    assert all(OWNERS["layer"](name) for name in ops.values("class").values())
    assert ops.values("class").keys() == ops.having("loss")


# -- tried -----------------------------------------------------------------------------------------

MATRIX = torch.rand(3, 3).t()  # not contiguous
WHOLE = torch.arange(1, 10).reshape(3, 3).t()
ARGUMENTS: tuple[tuple[Any, ...], ...] = (
    (),
    (0,),
    (MATRIX,),
    (0, 0),
    (0, 1),
    (0.5,),
    (1, 0, 1),
    (3, 3),
    (0, (3, 1)),
    ("ij->ji",),
    (0, torch.zeros(3, 3, dtype=torch.long)),
    (0, torch.zeros(3, dtype=torch.long)),
    (1,),
    (torch.zeros(3, dtype=torch.long),),
    (torch.zeros(3, 3, dtype=torch.bool),),
    (torch.zeros(3, 3, dtype=torch.bool), 0),
    (torch.zeros(3, 3, dtype=torch.bool), MATRIX),
    (MATRIX, 0.5),
    (0, torch.zeros(3, 3, dtype=torch.long), MATRIX),
    (0, torch.zeros(3, dtype=torch.long), 0.5),
    (MATRIX[0],),
    (MATRIX[None],),
    (MATRIX, MATRIX),
    (MATRIX[None], MATRIX[None]),
)
UNTRIED = {
    "quantile",
    "cuda",
    "pin_memory",
    "numpy",
    "split_with_sizes",
    "dsplit",
    "to",
    "type",
    "type_as",
}
"""What needs a GPU or other arguments, or gives what the arguments ask for."""


def results(name: str, tensor: Any) -> Iterator[Any]:
    """Yield what a method gives for the first arguments that it takes, for tensors of one to three
    dimensions."""
    for operand, given in product((tensor, tensor[0], tensor[None]), ARGUMENTS):
        try:
            yield operand, given, getattr(operand, name)(*given)
            return
        except (RuntimeError, TypeError, IndexError, ValueError):
            continue


def tried(
    *words: str, without: str = "", tensor: Any = MATRIX
) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield (name, tensor, arguments, result) of the methods that have all words."""
    left_out = ops.having(without) if without else frozenset()
    for name in sorted(ops.having("method", *words) - left_out - UNTRIED):
        for operand, given, result in results(name, tensor.clone()):
            yield name, operand, given, result


def memory(value: Any) -> set[int]:
    """Return where the tensors in a result lie."""
    parts = value if isinstance(value, (tuple, list)) else (value,)
    return {part.untyped_storage().data_ptr() for part in parts if isinstance(part, torch.Tensor)}


@pytest.mark.parametrize(
    "word", ["pointwise", "compare", "reduce", "along", "pick", "repeats", "product"]
)
def test_each_is_tried(word: str) -> None:
    """The cases below say something about most methods of each kind."""
    names = {name for name, *_ in tried(word)} | {name for name, *_ in tried(word, tensor=WHOLE)}
    assert ops.having("method", word) - names <= UNTRIED


def test_views_without_copies_share_memory() -> None:
    assert [name for name, x, _, y in tried("view", "no-copy") if memory(y) != memory(x)] == []


def test_fresh_results_have_memory_of_their_own() -> None:
    assert [name for name, x, _, y in tried("fresh") if memory(y) & memory(x)] == []


def test_what_is_made_of_a_tensor_may_share_its_memory() -> None:
    def shares(name: str) -> bool:
        whole = torch.ones(3, dtype=getattr(torch, dtypes.LEGACY.get(name, "float32")))
        given = whole.numpy() if name in ("from_numpy", "frombuffer") else whole
        made = getattr(torch, name)(
            given, **({"dtype": torch.float32} if name == "frombuffer" else {})
        )
        return bool(memory(made) == memory(whole))

    made_of = ops.having("torch", "from-data")
    assert {name for name in made_of if shares(name)} == ops.having("torch", "from-data", "alias")


def test_what_is_in_place_gives_the_tensor_itself() -> None:
    assert [name for name, x, _, y in tried("in-place") if y is not x] == []


def test_casts_give_their_dtype() -> None:
    given = {name: str(y.dtype) for name, _, _, y in tried("cast", without="move")}
    assert given == {name: f"torch.{dtype}" for name, dtype in dtypes.CASTS.items()}


def test_pointwise_operations_keep_the_dimensions() -> None:
    assert [
        name for name, x, _, y in tried("pointwise", without="several") if y.dim() != x.dim()
    ] == []


def test_reductions_without_arguments_give_one_number() -> None:
    found = [(name, y) for name, _, given, y in tried("reduce", without="several") if not given]
    assert len(found) > 15
    assert [name for name, y in found if y.dim()] == []


@pytest.mark.parametrize(
    ("word", "kind"), [("gives-bool", {"bool"}), ("gives-int", {"int"}), ("gives-float", {"float"})]
)
def test_dtypes_that_do_not_depend_on_the_tensor(word: str, kind: set[str]) -> None:
    found = [
        (name, y) for tensor in (MATRIX, WHOLE) for name, _, _, y in tried(word, tensor=tensor)
    ]
    assert len(found) > 10
    assert [name for name, y in found if dtypes.KINDS[str(y.dtype)] not in kind] == []


def test_of_integers_come_integers() -> None:
    found = list(tried("keeps-whole", without="several", tensor=WHOLE))
    assert len(found) > 25
    assert [name for name, _, given, y in found if not given and y.is_floating_point()] == []


def test_several_tensors() -> None:
    assert [name for name, _, _, y in tried("several") if not isinstance(y, (tuple, list))] == []


def test_dtypes() -> None:
    for dtype in dtypes.DTYPES:
        real = getattr(torch, dtype.name)
        assert (real.itemsize, real.is_floating_point) == (
            dtype.nbytes,
            dtype.kind not in ("int", "bool", "complex"),
        )
        assert dtype.other is None or getattr(torch, dtype.other) is real
        assert dtype.legacy is None or getattr(torch, dtype.legacy).dtype is real
