"""Fits the polynomials of ops/elementary and writes ops/elementary/polynomials.hpp.

    python3 tools/python/fit_elementary.py | clang-format --assume-filename=ops/p.hpp \\
        > ops/elementary/polynomials.hpp

Each polynomial is a weighted least-squares fit at Chebyshev nodes, in 60 digits. Coefficients are
rounded to doubles one by one from the lowest degree on, and the others fitted again each time, so
that the rounding of one is made good by the next (Brisebarre and Chevillard 2007 do it optimally).
The error written above a polynomial is the largest one of the *rounded* coefficients on a grid four
hundred times as dense as its degree, rounded up to a tenth of a bit; beside it stands the largest
absolute error of evaluating it.
"""

import dataclasses
import math
import sys
from collections.abc import Callable

import mpmath
from mpmath import mp, mpf

mp.dps = 60
NODES = 64  # even: no node at the middle, where the quotients below are 0/0

HEADER = """\
// Made by tools/python/fit_elementary.py (which says how); not edited.
#pragma once

#include <cstdint>

#include "ops/elementary/arithmetic.hpp"

namespace opbound::detail {
"""

FOOTER = """
}  // namespace opbound::detail"""


@dataclasses.dataclass
class Polynomial:
    """p(x) = sum of c[i] x^i, near `function` on [low, high]; `weight` scales the error."""

    name: str
    variable: str
    meaning: str  # what p stands for
    error: str  # the weighted error, in words
    function: Callable[[mpf], mpf]
    weight: Callable[[mpf], mpf]
    low: mpf
    high: mpf
    degree: int


def chebyshev_nodes(low: mpf, high: mpf, count: int) -> list[mpf]:
    half = (high - low) / 2
    middle = (high + low) / 2
    return [middle + half * mpmath.cos(mp.pi * (k + mpf(1) / 2) / count) for k in range(count)]


def fit(p: Polynomial) -> list[float]:
    """The coefficients of p, lowest degree first."""
    nodes = chebyshev_nodes(p.low, p.high, NODES)
    weights = [p.weight(x) for x in nodes]
    rest = [p.function(x) for x in nodes]
    coefficients: list[float] = []
    for i in range(p.degree + 1):
        rows = [[w * x**j for j in range(i, p.degree + 1)] for x, w in zip(nodes, weights)]
        right = [w * r for w, r in zip(weights, rest)]
        solution = mpmath.lu_solve(mpmath.matrix(rows), mpmath.matrix(right))
        c = float(solution[0])
        coefficients.append(c)
        rest = [r - c * x**i for x, r in zip(nodes, rest)]
    return coefficients


def largest_error(p: Polynomial, coefficients: list[float]) -> mpf:
    grid = chebyshev_nodes(p.low, p.high, 400 * p.degree)
    return max(
        abs(p.weight(x) * (p.function(x) - mpmath.polyval(coefficients[::-1], x))) for x in grid
    )


def evaluation_error(p: Polynomial, coefficients: list[float]) -> float:
    """The largest rounding error of Horner's rule with fma, in u = 2^-53, rounded up to 0.01 u.

    The running error bound (Wilkinson 1963) on a grid: each step adds half an ulp of its result.
    """
    largest = 0.0
    for node in chebyshev_nodes(p.low, p.high, 400 * p.degree):
        x = float(node)
        value, error = coefficients[-1], 0.0
        for c in coefficients[-2::-1]:
            value = c + x * value
            error = abs(x) * error + math.ulp(value) / 2
        largest = max(largest, error)
    return math.ceil(largest * 2.0**53 * 100) / 100


def definition(p: Polynomial) -> str:
    """The C++ function that evaluates p by Horner's rule."""
    coefficients = fit(p)
    exponent = math.ceil(10 * float(mpmath.log(largest_error(p, coefficients), 2))) / 10
    interval = f"[{mpmath.nstr(p.low, 5)}, {mpmath.nstr(p.high, 5)}]"
    lines = [
        "",
        f"/// {p.meaning} for {p.variable} in {interval};",
        f"/// {p.error} <= 2^{exponent:.1f}; roundings: {evaluation_error(p, coefficients):.2f} u.",
        f"OPBOUND_HD inline double {p.name}(double {p.variable}) {{",
        f"  return horner({p.variable},",
    ]
    numbers = [c.hex() for c in coefficients]
    ends = [","] * (len(numbers) - 1) + [");"]
    lines += [f"                {number}{end}" for number, end in zip(numbers, ends)]
    return "\n".join([*lines, "}"])


HALF_LN2 = mp.log(2) / 2 * (1 + mpf(2) ** -30)  # the reduced argument may pass the middle slightly
LARGEST_S = (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1) * (1 + mpf(2) ** -30)
QUARTER_PI = mp.pi / 4 * (1 + mpf(2) ** -30)


def atanh_quotient(z: mpf) -> mpf:
    """(2 atanh(s) / s - 2) / s^2 as a function of z = s^2."""
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) / s - 2) / z


ERFC_FACTOR = "exp(x^2) erfc(x) (x + 3)"


def erfc_factor(t: mpf) -> mpf:
    x = 3 * (1 + t) / (1 - t)
    return mp.exp(x * x) * mp.erfc(x) * (x + 3)


def erfc_variable(x: str) -> mpf:
    return (mpf(x) - 3) / (mpf(x) + 3)


def exp_polynomial(name: str, degree: int) -> Polynomial:
    return Polynomial(
        name,
        "r",
        "(e^r - 1 - r - r^2 / 2) / r^3",
        "|r^3 error / (e^r - 1)|",
        lambda r: (mp.exp(r) - 1 - r - r**2 / 2) / r**3,
        lambda r: r**3 / mp.expm1(r),
        -HALF_LN2,
        HALF_LN2,
        degree,
    )


POLYNOMIALS = [
    exp_polynomial("exp_tail", 9),
    exp_polynomial("exp_tail_float", 8),
    Polynomial(
        "log_tail",
        "z",
        "(2 atanh(s) / s - 2) / s^2 where z = s^2,",
        "z |error|",
        atanh_quotient,
        lambda z: z,
        mpf(0),
        LARGEST_S**2,
        6,
    ),
    Polynomial(
        "log_tail_long",
        "z",
        "(2 atanh(s) / s - 2 - 2 s^2 / 3) / s^4 where z = s^2,",
        "z^2 |error|",
        lambda z: (atanh_quotient(z) - mpf(2) / 3) / z,
        lambda z: z**2,
        mpf(0),
        LARGEST_S**2,
        8,
    ),
    Polynomial(
        "sin_tail",
        "z",
        "(sin(r) - r) / r^3 where z = r^2,",
        "z |error|",
        lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z,
        lambda z: z,
        mpf(0),
        QUARTER_PI**2,
        5,
    ),
    Polynomial(
        "cos_tail",
        "z",
        "(cos(r) - 1 + r^2 / 2) / r^4 where z = r^2,",
        "z^2 |error|",
        lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2,
        lambda z: z**2,
        mpf(0),
        QUARTER_PI**2,
        5,
    ),
    Polynomial(
        "erf_tail",
        "z",
        "erf(x) / x - 1 where z = x^2,",
        "|error|",
        lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1,
        lambda z: mpf(1),
        mpf(0),
        mpf("0.75") ** 2,
        11,
    ),
    Polynomial(
        "erfc_factor_float",
        "t",
        f"g(t) = {ERFC_FACTOR}, t = (x - 3) / (x + 3),",
        "that is x in [0.75, 10.1]; |error| / g",
        erfc_factor,
        lambda t: 1 / erfc_factor(t),
        erfc_variable("0.75"),
        erfc_variable("10.1"),
        17,
    ),
    Polynomial(
        "erfc_factor_tail",
        "t",
        "(g(t) - g(0)) / t with g of erfc_factor_float,",
        "that is x in [0.75, 27.3]; |t error| / g",
        lambda t: (erfc_factor(t) - erfc_factor(mpf(0))) / t,
        lambda t: t / erfc_factor(t),
        erfc_variable("0.75"),
        erfc_variable("27.3"),
        20,
    ),
]



def words(x: mpf, count: int, first_bits: int = 53) -> list[float]:
    """x as a sum of doubles, each the rest rounded; the first keeps only first_bits bits."""
    scale = mpf(2) ** (first_bits - mpmath.frexp(x)[1])
    parts = [float(mpmath.nint(x * scale) / scale)]
    for _ in range(count - 1):
        parts.append(float(x - mpmath.fsum(parts)))
    return parts


def constant(name: str, meaning: str, parts: list[float]) -> str:
    fields = ", ".join(part.hex() for part in parts)
    kind = {2: "DoubleWord", 3: "TripleWord"}[len(parts)]
    return f"\n/// {meaning}.\ninline constexpr {kind} {name}{{{fields}}};"


CONSTANTS = [
    constant(
        "ln2_split",
        "ln 2 = high + low, where high has 42 bits: k high is exact for |k| < 2^11",
        words(mp.log(2), 2, 42),
    ),
    constant("one_third", "1/3", words(mpf(1) / 3, 2)),
    "\n/// 2/pi.\ninline constexpr double two_over_pi = " + float(2 / mp.pi).hex() + ";",
    constant("half_pi", "pi/2", words(mp.pi / 2, 3)),
    constant("erfc_factor_at_zero", "g(0) = 6 e^9 erfc(3)", words(erfc_factor(mpf(0)), 2)),
]


def two_over_pi() -> str:
    """2/pi in 64-bit digits, after one digit 0: enough for x 2/pi mod 4 of every double x."""
    count = 19
    with mpmath.workdps(400):
        bits = int(mpmath.floor(2 / mp.pi * mpf(2) ** (64 * count)))
    digits = [bits >> 64 * (count - 1 - i) & (2**64 - 1) for i in range(count)]
    lines = [f"      0x{digit:016x}" for digit in [0, *digits]]
    return (
        "\n/// Digit i of 2/pi = sum of digit(i) 2^(-64 i), digit(0) = 0; i in [0, 19].\n"
        "OPBOUND_HD inline std::uint64_t two_over_pi_digit(int i) {\n"
        "  constexpr std::uint64_t digits[] = {\n" + ",\n".join(lines) + "};\n"
        "  return digits[i];\n}"
    )


def main() -> None:
    parts = [*CONSTANTS, *(definition(p) for p in POLYNOMIALS), two_over_pi()]
    print(HEADER + "\n".join(parts) + FOOTER)


if __name__ == "__main__":
    sys.exit(main())
