"""What functions of NumPy and of `random` make: names, by where the values come from. Data only.

Sources: the reference of NumPy 2 ("Array creation routines", "Legacy random generation") and of
`random`.
"""

from __future__ import annotations

RANDOM = {
    f"numpy.random.{name}": position
    for position, names in enumerate(
        (
            "rand randn random random_sample ranf sample standard_normal",
            "exponential poisson",
            "normal uniform randint random_integers binomial beta gamma laplace logistic lognormal",
        )
    )
    for name in names.split()
}
"""Draw numbers in a shape, where they are told one: the position of that argument."""
SHUFFLES = frozenset(("numpy.random.permutation", "numpy.random.choice"))
"""Draw positions below a number, or elements of an array."""
RANDOM_NUMBERS = frozenset(
    f"random.{name}" for name in "random uniform gauss normalvariate randint randrange".split()
)
"""Draw one number, as a rule for Python itself."""
MADE_OF_SIZES = frozenset(
    f"numpy.{name}"
    for name in (
        "arange linspace logspace eye identity zeros ones empty full tri indices tril_indices "
        "triu_indices zeros_like ones_like"
    ).split()
) | {"builtins.range"}
"""Make an array of sizes and numbers, as functions of torch do on the device."""
SHAPED = frozenset(f"numpy.{name}" for name in "zeros ones empty full".split())
"""Take a shape first, which is of sizes whatever holds it."""
READS = frozenset(
    f"numpy.{name}"
    for name in "load loadtxt genfromtxt fromfile memmap frombuffer fromstring fromiter".split()
)
"""Take what comes from outside."""
POSITIONS = frozenset(
    f"numpy.{name}" for name in "arange argsort argwhere flatnonzero nonzero where unique".split()
) | {"numpy.random.permutation"}
"""Give an array, or a tuple of them, whatever the arguments are."""
DRAWS = {**RANDOM, "numpy.random.choice": 1}
"""Give an array where they are told its size: the position of that argument."""
