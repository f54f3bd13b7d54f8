"""Prove the errors of the references' functions by machine.

Usage: python3 tools/python/prove_functions.py reference

Sollya bounds how far each stored polynomial is from its function (Chevillard, Harrison, Joldes and
Lauter 2011), Gappa what evaluating it rounds (Daumas and Melquiond 2010). The law of double-double
operations is an assumption, with the figures of DoubleDoubleFacts, whose theorems double_double.hpp
cites. Tables are read from the headers that are compiled; the order of operations is said again
here and has to follow double_double_functions.hpp and fp64.hpp.

A line for each function: the stated error and the proved one, of double-double in u^2 = 2^-106 and
of Fp64 in u = 2^-53, underflow aside. Exit code 1: a proved error is above the stated one. Without
gappa or sollya nothing is proved: exit code 77.
"""

import pathlib
import re
import shutil
import subprocess
import sys

NUMBER = r"-?0x[0-9a-f.]+p[+-]\d+"
U2 = 2.0**-106

# Largest arguments, as the headers state them; that of exp is proved below.
EXP_REACH, LOG_REACH, ATANH_REACH, ANGLE_REACH = "0.00542", "0.0122", "0.00614", "0.7854"
FP64_EXP = ["0.5", "0x1.5555555555555p-3", "0x1.5555555555555p-5", "0x1.1111111111111p-7",
            "0x1.6c16c16c16c17p-10"]


class Headers:
    """The numbers of the compiled headers."""

    def __init__(self, folder):
        names = ("double_double_tables", "double_double_erfcx", "double_double", "fp64")
        files = [pathlib.Path(folder) / f"{name}.hpp" for name in names]
        self.text = "".join(file.read_text(encoding="utf-8") for file in files)
        for number in FP64_EXP:
            assert number in self.text, f"fp64.hpp has no {number}"

    def table(self, name):
        found = re.search(
            name + r"\([^)]*\) \{\s*static constexpr double table\[(\d+)\] = \{(.*?)\};",
            self.text, re.S)
        numbers = re.findall(NUMBER, found[2])
        assert len(numbers) == int(found[1]), name
        return numbers

    def series(self, name, pairs):
        return Series(self.table(name), pairs)

    def scalar(self, name):
        return re.search(rf"double {name} = ({NUMBER});", self.text)[1]

    def fact(self, name, of="DoubleDoubleFacts"):
        facts = self.text[self.text.index(f"struct {of} ") :]
        return float(re.search(rf"\b{name} = \(?([0-9.]+)", facts)[1])


class Series:
    """Coefficients of ascending powers: pairs, then single doubles."""

    def __init__(self, numbers, pairs):
        self.pairs = [f"({numbers[2 * i]} + {numbers[2 * i + 1]})" for i in range(pairs)]
        self.singles = numbers[2 * pairs:]

    def all(self):
        return self.pairs + self.singles


def in_powers(coefficients, first=0, step=1):
    return " + ".join(f"{c} * x^{first + step * i}" for i, c in enumerate(coefficients))


# ---- the two programs ---------------------------------------------------------------------------


def answer(program, text):
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{program} failed:\n{done.stdout}{done.stderr}\n{text}")
    return done.stdout + done.stderr


def dyadic(text):
    mantissa, _, exponent = text.strip().partition("b")
    return int(mantissa) * 2.0 ** int(exponent or 0)


def upper(expressions):
    """Upper bounds of Sollya's intervals."""
    script = "prec = 400!;\ndisplay = dyadic!;\n"
    script += "".join(f"print(round(sup({e}), 53, RU));\n" for e in expressions)
    lines = answer("sollya", script + "quit;\n").split()
    assert len(lines) == len(expressions), lines
    return [dyadic(line) for line in lines]


def distance(p, f, low, high):
    """The largest |p / f - 1| on [low, high]; p and f may vanish together."""
    return f"supnorm({p}, {f}, [{low}; {high}], relative, 2^(-5))"


def magnitude(expression):
    """That of a constant expression."""
    return f"evaluate(abs(x), evaluate({expression}, [0; 0]))"


def largest(script, hypotheses, *goals, hint=""):
    """Gappa's bounds of the magnitudes of expressions."""
    given = " /\\ ".join(hypotheses)
    wanted = " /\\ ".join(f"{goal} in ?" for goal in goals)
    text = answer("gappa", f"{script}{{ {given} -> {wanted} }}{hint}")
    result = []
    for goal in goals:
        number = r"(-?\d+(?:b-?\d+)?)(?: \{[^}]*\})?"
        ends = re.search(rf"{re.escape(goal)} in \[{number}, {number}\]", text)
        if ends is None:
            sys.exit(f"gappa did not bound {goal}:\n{text}")
        result.append(max(abs(dyadic(ends[1])), abs(dyadic(ends[2]))))
    return result


# ---- double-double operations, as Gappa sees them -----------------------------------------------


class Script:
    """Names for results of operations whose relative error is assumed."""

    def __init__(self, headers):
        self.text = "@rnd = float<ieee_64, ne>;\n"
        self.hypotheses = []
        self.unit = {name: headers.fact(name) for name in ("add", "multiply", "divide")}
        self.count = 0

    def define(self, expression):
        self.count += 1
        self.text += f"v{self.count} = {expression};\n"
        return f"v{self.count}"

    def operation(self, expression, units):
        """A double-double within units u^2 of the expression; a name without a definition."""
        self.count += 1
        part = f"{round(units * 2**10)}b-116"
        self.hypotheses.append(f"w{self.count} -/ ({expression}) in [-{part}, {part}]")
        return f"w{self.count}"

    def add(self, a, b, units=None):
        return self.operation(f"{a} + {b}", units or self.unit["add"] * (1 + 2**-8))

    def multiply(self, a, b, units=None):
        return self.operation(f"{a} * {b}", units or self.unit["multiply"])

    def high(self, a):
        """The first of the two doubles."""
        self.count += 1
        self.hypotheses.append(f"w{self.count} -/ {a} in [-1b-53, 1b-53]")
        return f"w{self.count}"

    def polynomial(self, series, x, exact_x):
        """What polynomial() computes at x, and the exact polynomial at exact_x."""
        x_high = self.high(x)
        tail, exact = series.singles[-1], series.singles[-1]
        for c in reversed(series.singles[:-1]):
            tail = self.define(f"rnd({tail} * {x_high} + {c})")
            exact = self.define(f"{exact} * {exact_x} + {c}")
        for i, c in enumerate(reversed(series.pairs)):
            product = self.multiply(x, tail, 2 if i == 0 else None)
            tail = self.add(c, product)
            exact = self.define(f"{c} + {exact_x} * {exact}")
        return tail, exact

    def error(self, got, exact, hypotheses):
        return largest(self.text, hypotheses + self.hypotheses, f"{got} -/ {exact}")[0] / U2


def is_small(x, reach):
    """|x| <= reach, and not so small that an operation underflows."""
    return f"|{x}| in [1b-200, {reach}]"


# ---- functions ----------------------------------------------------------------------------------


def exp_reduction(headers):
    """|r|, and |r - (x - k ln2/64)| in double-double and Fp64, for k other than 0."""
    first, second, third = (headers.scalar(f"ln2_over_64_{p}") for p in
                            ("first", "second", "third"))
    nearest = headers.scalar("sixty_four_over_ln2")
    left = f"log(2) / 64 - {first} - {second}"
    rest, rest3, slip = upper([magnitude(left), magnitude(f"{left} - {third}"),
                               magnitude(f"1 - {nearest} * log(2) / 64")])
    script = f"""@rnd = float<ieee_64, ne>;
t = rnd(x * {nearest});
k = int<ne>(t);
first = x - k * {first};
lost_first = rnd(first) - first;
R = (t - k) * z + (x * s - (t - x * {nearest}) * z);
second = first - k * {second};
lost_second = (rnd(second) - second) - k * e;
third = k * {third};
lost_third = (rnd(third) - third) - k * e3;
"""
    hint = f"\nfirst -> R + k * (z - {first});\n"
    hypotheses = ["|x| in [0.005, 710]", "@FIX(x, -60)", "z in [0.01083042469, 0.01083042470]",
                  f"|s| <= {slip.hex()}", f"|e| <= {rest.hex()}", f"|e3| <= {rest3.hex()}"]
    reach, inexact, single, low = largest(
        script, hypotheses, "R", "lost_first", "lost_second", "lost_third", hint=hint)
    assert reach <= float(EXP_REACH) and inexact == 0, (reach, inexact)
    sums = (headers.fact("add") + 2.1) * U2 * float(EXP_REACH)  # a sum, and one with a double
    return sums + low, single


def exp_rows(headers):
    numbers = headers.table("power_minus_one")
    rows = [(j - 32, numbers[2 * j], numbers[2 * j + 1]) for j in range(64)]
    off = upper([magnitude(f"(1 + {a} + {b}) / 2^({j} / 64) - 1") for j, a, b in rows])
    return [(a, b, o) for (_, a, b), o in zip(rows, off)]


def exp_error(headers, approximation):
    series = headers.series("exp_series", 5)
    worst = 0
    for first, second, off in exp_rows(headers):
        s = Script(headers)
        p, exact_p = s.polynomial(series, "r", "r")
        q = s.add("r", s.multiply(s.multiply("r", "r"), p))
        exact_q = s.define(f"r + r * r * {exact_p}")
        m = f"({first} + {second})"
        if first == "0x0p+0":
            fraction, exact = q, exact_q
        else:
            fraction = s.add(m, s.add(q, s.multiply(m, q)))
            exact = s.define(f"{m} + ({exact_q} + {m} * {exact_q})")
        value = s.add(fraction, "1", 2)
        exact_value = s.define(f"{exact} + 1")
        worst = max(worst, s.error(value, exact_value, [is_small("r", EXP_REACH)]) + off / U2)
    return worst + (exp_reduction(headers)[0] + float(EXP_REACH) * approximation) * 1.01 / U2


def fp64_exp_error(headers, approximation):
    worst = 0
    for first, second, off in exp_rows(headers):
        script = "@rnd = float<ieee_64, ne>;\n"
        got, exact = FP64_EXP[-1], FP64_EXP[-1]
        for i, c in enumerate(reversed(FP64_EXP[:-1])):
            script += f"p{i} = rnd(r * {got} + {c});\nP{i} = r * {exact} + {c};\n"
            got, exact = f"p{i}", f"P{i}"
        script += f"""q = rnd(rnd(r * r) * {got} + r);
Q = r * r * {exact} + r;
fraction = rnd({first} + rnd(rnd({first} * q + q) + {second}));
y = rnd(1 + fraction);
exact = 1 + ({first} + (({first} * Q + Q) + {second}));
"""
        error = largest(script, [f"|r| <= {EXP_REACH}", "@FLT(r, 53)"], "y -/ exact")[0]
        worst = max(worst, error + off)
    return (worst + (exp_reduction(headers)[1] + float(EXP_REACH) * approximation) * 1.01) * 2**53


def odd_error(headers, series, reach):
    """x times a polynomial of x^2."""
    s = Script(headers)
    p, exact = s.polynomial(series, s.multiply("x", "x"), "(x * x)")
    return s.error(s.multiply("x", p), s.define(f"x * {exact}"), [is_small("x", reach)])


def cos_error(headers, series):
    s = Script(headers)
    p, exact = s.polynomial(series, s.multiply("x", "x"), "(x * x)")
    return s.error(p, exact, [is_small("x", ANGLE_REACH)])


def log1p_small_error(headers, series):
    s = Script(headers)
    ratio = s.operation(f"z / {s.add('z', '2', 2)}", headers.fact("divide"))
    exact_ratio = s.define("z / (z + 2)")
    p, exact = s.polynomial(series, s.multiply(ratio, ratio), f"({exact_ratio} * {exact_ratio})")
    return s.error(s.multiply(ratio, p), s.define(f"{exact_ratio} * {exact}"),
                   [is_small("z", LOG_REACH)])


def erfcx_intervals(count):
    result = [(i / 8, 1 / 8) for i in range(8)]
    start = 1.0
    while len(result) < count:
        result += [(start + i * start / 8, start / 8) for i in range(8)]
        start *= 2
    return result[:count]


def erfcx_errors(headers, distances):
    """Of scaled_erfc and of erfcx_fp64."""
    numbers = headers.table("erfcx_series")
    length = 2 * 13 + 9
    rows = [numbers[i : i + length] for i in range(0, len(numbers), length)]
    worst, worst_fp64, claims = 0, 0, []
    for (start, width), row in zip(erfcx_intervals(len(rows)), rows):
        short = [row[2 * i] for i in range(14)]
        for coefficients in (Series(row, 13).all(), short):
            f = f"exp(({start + width / 2} + x)^2) * erfc({start + width / 2} + x)"
            claims.append(distance(in_powers(coefficients), f, -width / 2, width / 2))
    far = distances(claims)
    for i, ((_, width), row) in enumerate(zip(erfcx_intervals(len(rows)), rows)):
        s = Script(headers)
        # x - middle, exact in x; as a double-double it is x.high - middle + x.low
        p, exact = s.polynomial(Series(row, 13), "h", "h")
        worst = max(worst, s.error(p, exact, [is_small("h", width / 2)]) + far[2 * i] / U2)
        script, got, whole = "@rnd = float<ieee_64, ne>;\n", row[26], row[26]
        for k in range(12, -1, -1):
            script += f"y{k} = rnd(t * {got} + {row[2 * k]});\nY{k} = t * {whole} + {row[2 * k]};\n"
            got, whole = f"y{k}", f"Y{k}"
        error = largest(script, [f"|t| <= {width / 2}", "@FLT(t, 53)"], "y0 -/ Y0")[0]
        worst_fp64 = max(worst_fp64, (error + far[2 * i + 1]) * 2**53)
    return worst, worst_fp64


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: prove_functions.py FOLDER")
    if not (shutil.which("gappa") and shutil.which("sollya")):
        print("nothing is proved: gappa and sollya are packages of Debian and Ubuntu")
        sys.exit(77)
    headers = Headers(sys.argv[1])
    exp, log, erf, sin, cos = (headers.series(f"{name}_series", pairs) for name, pairs in
                               (("exp", 5), ("log", 4), ("erf", 12), ("sin", 8), ("cos", 9)))
    far = upper([
        distance("x + " + in_powers(exp.all(), 2), "expm1(x)", f"-{EXP_REACH}", EXP_REACH),
        distance("x + " + in_powers(FP64_EXP, 2), "expm1(x)", f"-{EXP_REACH}", EXP_REACH),
        distance(in_powers(log.all(), 1, 2), "log1p(x) - log1p(-x)", f"-{ATANH_REACH}",
                 ATANH_REACH),
        distance(in_powers(erf.all(), 1, 2), "erf(x)", "-0.5", "0.5"),
        distance(in_powers(sin.all(), 1, 2), "sin(x)", f"-{ANGLE_REACH}", ANGLE_REACH),
        distance(in_powers(cos.all(), 0, 2), "cos(x)", f"-{ANGLE_REACH}", ANGLE_REACH),
    ])
    erfcx, erfcx_fp64 = erfcx_errors(headers, upper)
    proved = [
        ("exp", 4, exp_error(headers, far[0])),
        ("log1p_small", 25, log1p_small_error(headers, log) + far[2] / U2),
        ("erf_small", 10, odd_error(headers, erf, "0.5") + far[3] / U2),
        ("scaled_erfc", 8, erfcx),
        ("sin_series_at", 11, odd_error(headers, sin, ANGLE_REACH) + far[4] / U2),
        ("cos_series_at", 15, cos_error(headers, cos) + far[5] / U2),
        ("exp, Fp64", headers.fact("exp", "Fp64Facts"), fp64_exp_error(headers, far[1])),
        ("erfcx, Fp64", headers.fact("erfcx", "Fp64Facts"), erfcx_fp64),
    ]
    print(f"{'function':<15} stated  proved")
    for name, stated, value in proved:
        print(f"{name:<15} {stated:6.1f}  {value:6.3f}{'' if value <= stated else '  ABOVE'}")
    sys.exit(any(value > stated for _, stated, value in proved))


if __name__ == "__main__":
    main()
