"""Our frozen dataclasses are those of the standard library, made sooner."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields, replace
from typing import Any

import pytest

from torchlint.base import records

Decorator = Callable[..., Any]


def shapes(dataclass: Decorator) -> dict[str, Any]:
    """Return a class of each kind that the two decorators make."""

    @dataclass(frozen=True, slots=True)
    class Plain:
        """A plain one."""

        name: str
        size: int = 3
        parts: list[str] = field(default_factory=list)
        hidden: int = field(default=0, compare=False, repr=False)

    @dataclass(frozen=True, slots=True)
    class Nothing:
        """No fields."""

    @dataclass(frozen=True, slots=True)
    class One:
        """One field."""

        value: object

    @dataclass(frozen=True, slots=True, order=True)
    class Ordered:
        """With an order."""

        row: int
        column: int = 1

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Named:
        """By name alone."""

        first: int = 1
        second: int

    @dataclass(frozen=True, slots=True, eq=False)
    class Itself:
        """Equal to itself alone."""

        value: int

    @dataclass(frozen=True, slots=True)
    class Checked:
        """Looks at what it is given."""

        value: int

        def __post_init__(self) -> None:
            if self.value < 0:
                raise ValueError("negative")

    @dataclass(frozen=True, slots=True)
    class Own:
        """Has its own words and comparison."""

        value: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

    @dataclass(frozen=True, slots=True)
    class Wider(Plain):
        """With fields of another."""

        more: int = 5

    found = (Plain, Nothing, One, Ordered, Named, Itself, Checked, Own, Wider)
    return {each.__name__: each for each in found}


OURS, THEIRS = shapes(records.dataclass), shapes(dataclasses.dataclass)
GIVEN: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Plain", ("a",), {}),
    ("Plain", ("a", 4, ["b"], 9), {}),
    ("Plain", (), {"name": "a", "parts": []}),
    ("Nothing", (), {}),
    ("One", ("a",), {}),
    ("Ordered", (2,), {}),
    ("Named", (), {"second": 2}),
    ("Itself", (1,), {}),
    ("Checked", (1,), {}),
    ("Own", (1,), {}),
    ("Wider", ("a",), {"more": 1}),
]


@pytest.mark.parametrize(("name", "args", "named"), GIVEN)
def test_an_object_is_as_the_standard_librarys(
    name: str, args: tuple[Any, ...], named: dict[str, Any]
) -> None:
    ours, theirs = OURS[name](*args, **named), THEIRS[name](*args, **named)
    words = repr(theirs).replace("shapes.<locals>.", "")
    assert repr(ours).replace("shapes.<locals>.", "") == words
    values = [getattr(theirs, each.name) for each in fields(theirs)]
    assert [getattr(ours, each.name) for each in fields(ours)] == values
    assert ours.__match_args__ == theirs.__match_args__
    again, other = copy.copy(ours), copy.copy(theirs)
    assert (ours == again, ours != again) == (theirs == other, theirs != other)
    assert ours != theirs or name == "Own"
    assert not hasattr(ours, "__dict__")


@pytest.mark.parametrize("name", OURS)
def test_a_class_takes_what_the_standard_librarys_takes(name: str) -> None:
    ours = inspect.signature(OURS[name].__init__).parameters.values()
    theirs = inspect.signature(THEIRS[name].__init__).parameters.values()
    assert [(each.name, each.kind) for each in ours] == [(each.name, each.kind) for each in theirs]
    assert [each.default is each.empty for each in ours] == [
        each.default is each.empty for each in theirs
    ]


def test_what_is_compared_decides_the_hash_and_the_order() -> None:
    one = OURS["Ordered"]
    assert hash(one(1, 2)) == hash(one(1, 2))
    assert len({one(1, 2), one(1, 2), one(2, 1)}) == 2
    assert one(1, 2) < one(1, 3) <= one(1, 3) < one(2, 0)
    assert one(2, 0) > one(1, 3) >= one(1, 3)
    with pytest.raises(TypeError):
        one(1) < THEIRS["Ordered"](2)  # noqa: B015
    with pytest.raises(TypeError, match="unhashable"):
        hash(OURS["Plain"]("a"))
    assert OURS["Plain"]("a", hidden=1) == OURS["Plain"]("a", hidden=2)
    assert hash(OURS["Own"](1)) == 7


def test_nothing_can_be_assigned() -> None:
    for cls in (OURS["Plain"], OURS["Wider"]):
        made = cls("a")
        with pytest.raises(FrozenInstanceError, match="cannot assign to field 'name'"):
            made.name = "b"
        with pytest.raises(FrozenInstanceError):
            del made.name
        assert made.name == "a"


def test_defaults_are_made_for_each_object() -> None:
    one, other = OURS["Plain"]("a"), OURS["Plain"]("a")
    one.parts.append("x")
    assert other.parts == []


def test_a_changed_copy_is_checked_too() -> None:
    made = OURS["Checked"](1)
    assert replace(made, value=2).value == 2
    with pytest.raises(ValueError, match="negative"):
        replace(made, value=-1)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(TypeError, match=r"Plain.__init__\(\) missing 1 required .* 'name'"):
        OURS["Plain"]()


@records.dataclass(frozen=True, slots=True)
class Sent:
    """Goes to another process."""

    name: str
    parts: tuple[int, ...] = ()


def test_it_can_be_sent_and_copied() -> None:
    sent = Sent("a", (1, 2))
    assert pickle.loads(pickle.dumps(sent)) == sent
    assert copy.deepcopy(sent) == sent


def test_others_are_left_to_the_standard_library() -> None:
    @records.dataclass(slots=True)
    class Open:
        value: int

    made = Open(1)
    made.value = 2
    assert made == Open(2)
    assert Open.__hash__ is None


_SOONER = """
import dataclasses
from torchlint.base.records import import_libcst

usual = dataclasses.dataclass
import_libcst()
assert dataclasses.dataclass is usual
import libcst as cst
import sys
later = {"libcst.metadata.scope_provider", "libcst.metadata.type_inference_provider"}
assert not later & sys.modules.keys()
assert cst.metadata is sys.modules["libcst.metadata"]
from libcst.metadata import CodePosition, MetadataWrapper, ScopeProvider
assert later <= sys.modules.keys() and MetadataWrapper is cst.MetadataWrapper
scopes = MetadataWrapper(cst.parse_module("x = 1")).resolve(ScopeProvider)
assert any("x" in scope for scope in scopes.values() if scope)
import_libcst()
assert cst.metadata.ScopeProvider is ScopeProvider

one, other = cst.Name("x"), cst.Name("x")
assert one != other and one.deep_equals(other) and hash(one) == id(one)
assert repr(one).startswith("Name(") and one.with_changes(value="y").value == "y"
assert not cst.Name.__dataclass_params__.eq
assert cst.Float("1.5").value == "1.5" and cst.Float.__dataclass_params__.frozen
class Own(cst.Float):
    pass
assert Own(value="2.5", lpar=[cst.LeftParen()], rpar=[cst.RightParen()]).lpar
for wrong in (cst.Integer, lambda: cst.Integer("x"), lambda: cst.Integer("1", no=2)):
    try:
        wrong()
    except (TypeError, cst.CSTValidationError):
        continue
    raise AssertionError(wrong)
assert CodePosition(1, 2) == CodePosition(1, 2) != CodePosition(1, 3)
try:
    one.value = "y"
except dataclasses.FrozenInstanceError:
    print("frozen")
"""


def test_libcst_is_the_same_when_it_is_imported_sooner() -> None:
    done = subprocess.run([sys.executable, "-c", _SOONER], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("frozen\n", "")
