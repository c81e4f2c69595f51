"""The ground of all questions about one file: its text and tree, what its names stand for, and the
memory of answers.

It knows nothing of torch; that is for the questions, see `torchlint.semantic.question`.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import Any, Protocol

import libcst as cst

from torchlint.base.contract import UNSAID, Contract
from torchlint.base.records import frozen
from torchlint.semantic.code.names import Names, dotted_text
from torchlint.semantic.code.statements import Statements
from torchlint.semantic.code.tree import Tree
from torchlint.semantic.elsewhere import Elsewhere


class _OneLine(cst.CSTTransformer):
    """Puts on one line what stands in brackets."""

    def leave_ParenthesizedWhitespace(  # noqa: N802 - libcst's name
        self,
        original_node: cst.ParenthesizedWhitespace,
        updated_node: cst.ParenthesizedWhitespace,
    ) -> cst.BaseParenthesizableWhitespace:
        return cst.SimpleWhitespace(" ")

    def leave_SimpleWhitespace(  # noqa: N802
        self, original_node: cst.SimpleWhitespace, updated_node: cst.SimpleWhitespace
    ) -> cst.BaseParenthesizableWhitespace:
        return cst.SimpleWhitespace(" ") if "\\" in updated_node.value else updated_node


@frozen
class Question:
    """What is known of a question besides its answers, see `torchlint.semantic.question`.

    Args:
        name: the name of the function, which is the only one of that name.
        home: the dotted name of the file that decides it.
        sentence: the first line of its docstring.
        yes: the sentence for an answer that holds something to be so (True, or a thing).
        no: the sentence for one that does not.
    """

    name: str
    home: str
    sentence: str
    yes: str
    no: str


class Counterfactual(Protocol):
    """Who is told every question that has words, and may give another answer."""

    pending: set[object]
    """The questions that are being answered, so that a circle of them ends."""

    def tell(self, question: Question, arguments: tuple[object, ...], truth: object) -> object:
        """Return the answer that is given to a question."""


class Module:
    """One parsed file.

    Args:
        root: its tree.
        text: its text.
        filename: its path, relative to the project's root.
        outside: the rest of its project.
        target_torch: the lowest torch version that fixes must work on.
        torch_declared: whether the project says that it is.
        newest_torch: the last one that the project allows, None where that is open.
        accelerator: ``auto``, or what the code is known to run on.
        assume_hot: patterns of names of functions that run every step.
        contract: where the host must not wait.
        python: CPython's tree of the text, where somebody has it already.
        structure: what is known of the structure of `root`, where somebody has it already.
    """

    ground: Module
    """The module as it is written, where this one has imagined answers (see `counterfactual`); else
    itself."""

    def __init__(
        self,
        root: cst.Module,
        text: str,
        filename: str,
        outside: Elsewhere,
        *,
        target_torch: tuple[int, int] = (2, 4),
        torch_declared: bool = True,
        newest_torch: tuple[int, ...] | None = None,
        accelerator: str = "auto",
        assume_hot: tuple[str, ...] = (),
        contract: Contract = UNSAID,
        python: ast.Module | None = None,
        structure: Tree | None = None,
    ) -> None:
        self.ground = self
        self.counterfactual: Counterfactual | None = None
        self.root = root
        self.text = text
        self.filename = filename
        self.outside = outside
        self.path = outside.path
        self.target_torch = target_torch
        self.torch_declared = torch_declared
        self.newest_torch = newest_torch
        self.accelerator = accelerator
        self.assume_hot = assume_hot
        self.contract = contract
        self.tree = structure if structure is not None else Tree(root)
        self.names = Names(self.tree, filename, outside)
        # What rules ask most: the tree's own answers, and the names', without a step between.
        self.nodes = self.tree.nodes
        self.parent = self.tree.parents.get
        self.ancestors = self.tree.ancestors
        self.within = self.tree.within
        self.contains = self.tree.contains
        self.names_in = self.tree.names_in
        self.is_method = self.tree.is_method
        self.bind = self.tree.bind
        self.links_around = self.tree.links_around
        self.chain_around = self.tree.chain_around
        self.is_within = self.tree.is_within
        self.statement = self.tree.statement
        self.small_statement = self.tree.small_statement
        self.loops = self.tree.loops
        self.function = self.tree.function
        self.class_of = self.tree.class_of
        self.name = self.names.name
        self.statements = Statements(root, text, python)
        self.answers: defaultdict[Any, dict[Any, Any]] = defaultdict(dict)
        """What questions have answered, by question and arguments."""
        self.asking = 0
        """How many questions are being answered, one for the sake of the other."""
        self.circles = 0
        """How often a question has come back to itself."""

    def close(self) -> None:
        """Forget all answers: they know each other, and would wait for the garbage collector to be
        freed."""
        for answers in self.answers.values():
            whole = answers.get(
                ()
            )  # what a question has gathered over the file, such as its call graph
            if hasattr(whole, "__dict__"):
                vars(whole).clear()
            answers.clear()
        vars(self).clear()

    # -- where nodes stand -------------------------------------------------------------------------

    def taker(self, node: cst.CSTNode | None) -> cst.Call | None:
        """Return the call that is handed `node` as an argument."""
        arg = self.parent(node)
        call = self.parent(arg) if isinstance(arg, cst.Arg) else None
        return call if isinstance(call, cst.Call) else None

    def method_call(self, node: cst.CSTNode | None) -> cst.Call | None:
        """Return the call of a method of what an expression gives, ``x.cpu()`` of ``x``."""
        match self.parent(node):
            case cst.Attribute(value) as method if value is node:
                call = self.parent(method)
                return call if isinstance(call, cst.Call) else None
        return None

    def before(self, a: cst.CSTNode, b: cst.CSTNode) -> bool:
        """Say whether `a` comes before `b` in the file."""
        return self.tree.order[a] < self.tree.order[b]

    def scope(self, node: cst.CSTNode) -> cst.FunctionDef | cst.Module:
        """Return the ``def`` that holds `node`, or the file."""
        return self.function(node) or self.root

    def loop(self, node: cst.CSTNode) -> cst.For | cst.While | None:
        """Return the innermost of `loops`."""
        return next(iter(self.loops(node)), None)

    def is_label(self, name: cst.Name) -> bool:
        """Say whether a name only says which attribute or argument is meant."""
        above = self.parent(name)
        label = above.attr if type(above) is cst.Attribute else None
        return name is (above.keyword if type(above) is cst.Arg else label)

    # -- what is written ---------------------------------------------------------------------------

    def called(self, node: cst.CSTNode | None) -> str:
        """Return the dotted name of what a call calls; empty where it has none, and for any other
        node."""
        return (self.names.name(node.func) or "") if isinstance(node, cst.Call) else ""

    def source(self, node: cst.CSTNode) -> str:
        """Return a statement, or the whole file, as it is written; decorators and comments above
        are left out."""
        if node is self.root:
            return self.text
        smalls = node.body if isinstance(node, cst.SimpleStatementLine) else (node,)
        places = [self.statements.span(small) for small in smalls]
        if None in places:
            return self.root.code_for_node(node)
        return "; ".join(
            self.text[place.start : place.end] for place in places if place is not None
        )

    def shown(self, node: cst.CSTNode, limit: int = 60) -> str:
        """Return an expression as a message shows it: on one line, cut after `limit` characters.

        For words alone: what is compared, searched or becomes code is `source_of`."""
        text = dotted_text(node) or " ".join(self.root.code_for_node(node).split())
        return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"

    def source_of(self, node: cst.CSTNode) -> str:
        """Return the whole source of an expression, without the line breaks and comments between
        its parts; a string of several lines keeps its own."""
        text = dotted_text(node) or self.root.code_for_node(node)
        if "\n" not in text and "\r" not in text:
            return text
        return self.root.code_for_node(cst.ensure_type(node.visit(_OneLine()), type(node)))
