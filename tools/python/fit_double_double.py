"""Write the tables of DoubleDouble's functions, reference/double_double_{tables,erfcx}.hpp.

Usage: python3 tools/python/fit_double_double.py reference

Needs mpmath. Every number is computed with 420 bits. The line printed at the end is the largest
relative error of the polynomials for exp(x^2) erfc(x), of which double_double_functions.hpp's
error bound for erfc takes account.
"""

import pathlib
import re
import sys

from mpmath import chebyfit, erfc, exp, factorial, floor, log, mp, mpf, nint, nstr, pi, sqrt

mp.prec = 420

ERFCX_DEGREE = 21
ERFCX_PAIRS = 13
ERFCX_END = 26

HEADER = """\
// Written by tools/python/fit_double_double.py: {what}
//
// A table is a static array inside a function, since that is what device code can index. A
// polynomial's leading coefficients are pairs high, low; the others are one double each.
#pragma once

#include "ops/portable.hpp"

namespace opbound::double_double {{

// clang-format off
"""

FOOTER = """
// clang-format on

}  // namespace opbound::double_double
"""


def parts(x, count):
    """x as a sum of `count` doubles, each the nearest to what the ones before leave."""
    result = []
    for _ in range(count):
        result.append(float(x))
        x -= mpf(result[-1])
    return result


def shortened(x, digits):
    """x rounded to `digits` significant bits."""
    step = mpf(2) ** (floor(log(abs(x), 2)) - digits + 1)
    return nint(x / step) * step


def in_three(x, digits):
    """x as three doubles; the first has few digits, so that its small multiples are exact."""
    first = shortened(x, digits)
    return [float(first)] + parts(x - first, 2)


def coefficients(values, pairs):
    result = []
    for i, value in enumerate(values):
        result += parts(value, 2 if i < pairs else 1)
    return result


def hexadecimal(x):
    return re.sub(r"\.?0*p", "p", x.hex(), count=1)


def lines_of(numbers):
    lines, line = [], "   "
    for number in numbers:
        text = f" {hexadecimal(number)},"
        if len(line) + len(text) > 100:
            lines.append(line)
            line = "   "
        line += text
    return lines + [line]


def table(name, numbers, comment, row=None):
    """A function that returns the table, or its row i if a row's length is given."""
    parameter, place = ("int i", f"table + {row} * i") if row else ("", "table")
    return [
        "",
        *(f"/// {line}" for line in comment),
        "// NOLINTNEXTLINE(readability-function-size): long, and nothing but numbers",
        f"OPBOUND_HD inline const double* {name}({parameter}) {{",
        f"  static constexpr double table[{len(numbers)}] = {{",
        *lines_of(numbers),
        "  };",
        f"  return {place};",
        "}",
    ]


def scalar(name, x):
    return f"inline constexpr double {name} = {hexadecimal(x)};"


def scalars(name, numbers, comment):
    return ["", f"/// {comment}"] + [
        scalar(f"{name}_{place}", x) for place, x in zip(("first", "second", "third"), numbers)
    ]


def reductions():
    ln2 = log(mpf(2))
    return [
        *scalars("ln2_over_64", in_three(ln2 / 64, 36), "ln 2 / 64; 36 digits in the first."),
        *scalars("half_pi", in_three(pi / 2, 32), "pi / 2; 32 digits in the first."),
        *scalars("ln2_pair", parts(ln2, 2), "ln 2."),
        *scalars("pi_pair", parts(+pi, 2), "pi."),
        "",
        "/// 64 / ln 2 and 2 / pi, for the choice of a multiple only.",
        scalar("sixty_four_over_ln2", float(64 / ln2)),
        scalar("two_over_pi", float(2 / pi)),
    ]


def exponentials():
    numbers = []
    for j in range(-32, 32):
        numbers += parts(mpf(2) ** (mpf(j) / 64) - 1, 2)
    return table("power_minus_one", numbers, ["2^((i - 32) / 64) - 1, i in [0, 64)."], 2)


def logarithms():
    numbers = []
    for j in range(45, 92):
        reciprocal = shortened(mpf(64) / j, 10)
        numbers += [float(reciprocal)] + parts(-log(reciprocal), 2)
    comment = ["i in [0, 47): r = 64 / (i + 45) rounded to 10 bits, then -log r as a pair."]
    return table("reciprocal_and_log", numbers, comment, 3)


def all_series():
    two_over_sqrt_pi = 2 / sqrt(+pi)
    exp_series = [1 / factorial(k) for k in range(2, 12)]
    log_series = [mpf(2) / (2 * k + 1) for k in range(8)]
    erf_series = [(-1) ** k * two_over_sqrt_pi / (factorial(k) * (2 * k + 1)) for k in range(21)]
    sin_series = [(-1) ** k / factorial(2 * k + 1) for k in range(15)]
    cos_series = [(-1) ** k / factorial(2 * k) for k in range(15)]
    return [
        *table("exp_series", coefficients(exp_series, 5), ["1 / k!, k = 2 ... 11; 5 pairs."]),
        *table("log_series", coefficients(log_series, 4), ["2 / (2 k + 1), k < 8; 4 pairs."]),
        *table(
            "erf_series",
            coefficients(erf_series, 12),
            ["(-1)^k 2 / (sqrt(pi) k! (2 k + 1)), k < 21; 12 pairs."],
        ),
        *table("sin_series", coefficients(sin_series, 8), ["(-1)^k / (2k + 1)!, k < 15; 8 pairs."]),
        *table("cos_series", coefficients(cos_series, 9), ["(-1)^k / (2 k)!, k < 15; 9 pairs."]),
    ]


def erfcx_intervals():
    """Eight intervals on [0, 1], and eight in each octave from 1 on."""
    result = [(mpf(i) / 8, mpf(1) / 8) for i in range(8)]
    start, width = mpf(1), mpf(1) / 8
    while start < ERFCX_END:
        result += [(start + i * width, width) for i in range(8) if start + i * width < ERFCX_END]
        start, width = 2 * start, 2 * width
    return result


def erfcx_polynomial(start, width):
    """The coefficients in x - middle, and the relative error of the polynomial they make.

    The k-th is rounded to a multiple of 2^-118 c_0 / (width / 2)^k, below which it does not count.
    """
    middle = start + width / 2
    fit, error = chebyfit(
        lambda h: exp((middle + h) ** 2) * erfc(middle + h),
        [-width / 2, width / 2],
        ERFCX_DEGREE + 1,
        error=True,
    )
    fit = fit[::-1]
    rounded = []
    for k, value in enumerate(fit):
        step = mpf(2) ** (floor(log(fit[0], 2)) - 118) / (width / 2) ** k
        step = mpf(2) ** floor(log(step, 2))
        rounded.append(nint(value / step) * step)
    return coefficients(rounded, ERFCX_PAIRS), error / fit[0]


def erfcx_table():
    numbers, errors = [], []
    for start, width in erfcx_intervals():
        row, error = erfcx_polynomial(start, width)
        numbers += row
        errors.append(error)
    print("exp(x^2) erfc(x): relative error 2^" + nstr(log(max(errors), 2), 5))
    comment = [
        "exp(x^2) erfc(x) on interval i as a polynomial in x - its middle: degree 21, 13 pairs.",
        "Intervals: [i / 8, (i + 1) / 8] up to 1, then eight in each octave, up to 26.",
    ]
    return table("erfcx_series", numbers, comment, ERFCX_DEGREE + 1 + ERFCX_PAIRS)


def write(folder, name, what, lines):
    text = HEADER.format(what=what) + "\n".join(lines[1:]) + "\n" + FOOTER
    (pathlib.Path(folder) / name).write_text(text, encoding="utf-8")


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: fit_double_double.py FOLDER")
    small = reductions() + exponentials() + logarithms() + all_series()
    write(sys.argv[1], "double_double_tables.hpp", "constants, tables and series.", small)
    write(sys.argv[1], "double_double_erfcx.hpp", "erfc's polynomials.", erfcx_table())


if __name__ == "__main__":
    main()
