"""What a file's text says, wherever it says it."""

from __future__ import annotations

import re

import libcst as cst

from torchlint.semantic.code.wording import Wording
from torchlint.semantic.module import Module
from torchlint.semantic.question import question

_MAIN = re.compile(r"^if\s+__name__\s*==\s*['\"]__main__['\"]", re.MULTILINE)


@question(
    yes="the file mentions what the rule looks for",
    no="the file nowhere mentions what the rule looks for",
    ground=True,
)
def mentions(module: Module, pattern: re.Pattern[str] | Wording) -> bool:
    """Say whether a pattern is found anywhere in the file's text."""
    return pattern.search(module.text) is not None


@question(
    yes='the file has `if __name__ == "__main__":`',
    no='the file has no `if __name__ == "__main__":`',
    ground=True,
)
def has_main_guard(module: Module) -> bool:
    """Whether the file has ``if __name__ == "__main__":``."""
    return mentions(module, _MAIN)


@question(remember=False)
def explained(module: Module, node: cst.CSTNode, pattern: re.Pattern[str]) -> bool:
    """Say whether a comment speaks of something where a statement stands: above or behind it, or at
    a ``with`` around it."""
    comments: list[cst.Comment | None] = []
    for each in (module.statement(node), *module.ancestors(node)):
        match each:
            case cst.SimpleStatementLine(leading_lines=above, trailing_whitespace=end):
                pass
            case cst.With(leading_lines=above, body=cst.IndentedBlock(header=end)):
                pass
            case cst.FunctionDef():
                break
            case _:
                continue
        comments += [*(line.comment for line in above), end.comment]
    return any(each is not None and pattern.search(each.value) for each in comments)
