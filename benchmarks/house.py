"""Figures of the house: what the code of torchlint weighs, and how often it does by hand what the
house does once.

    python benchmarks/house.py [ROOT]    print them for the checkout at ROOT, by default this one

Tokens are those of code: no comments, docstrings or blank lines. A private walker is a private
function of rules or of the model that calls itself; a budget is a parameter that counts how far
something is followed.
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

RUNTIME = {"verify", "profile", "program", "trace"}
"""Parts that run programs; all others are the linter."""
BUDGETS = {"depth", "fuel", "budget"}
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.NEWLINE,
    tokenize.ENDMARKER,
}


def tokens(text: str, tree: ast.Module) -> int:
    """Return how many tokens of code a file has."""
    said = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    read = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(each.type not in LAYOUT and each.start[0] not in said for each in read)


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Yield all functions of a file."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def budgets(function: ast.FunctionDef) -> int:
    """Return how many of a function's parameters are budgets."""
    args = function.args
    return sum(each.arg in BUDGETS for each in (*args.posonlyargs, *args.args, *args.kwonlyargs))


def walks(function: ast.FunctionDef) -> bool:
    """Say whether a private function calls itself by its name."""
    return function.name.startswith("_") and any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == function.name
        for node in ast.walk(function)
    )


def figures(root: Path) -> dict[str, int]:
    """Return the figures of a checkout by what they count."""
    found = dict.fromkeys(
        ("linter tokens", "runtime tokens", "lines", "files", "functions", "budgets", "walkers"), 0
    )
    for path in sorted((root / "torchlint").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        part = path.relative_to(root / "torchlint").parts[0]
        found[f"{'runtime' if part in RUNTIME else 'linter'} tokens"] += tokens(text, tree)
        found["lines"] += text.count("\n")
        found["files"] += 1
        found["functions"] += sum(1 for _ in functions(tree))
        if part in ("rules", "semantic"):
            found["budgets"] += sum(map(budgets, functions(tree)))
            found["walkers"] += sum(map(walks, functions(tree)))
    return found


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).parent.parent)
    for name, number in figures(parser.parse_args().root).items():
        print(f"{number:>9,}  {name}")


if __name__ == "__main__":
    main()
