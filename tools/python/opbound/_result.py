"""What a judgement found: records, counted, and the worst of them in words."""
import collections
import json

from opbound import _library, _words

# Worst first, as opbound's README explains them.
VERDICTS = ("failed", "exceeds", "undecided", "vacuous", "skipped", "within")
_FINDINGS = ("failed", "exceeds", "undecided")


class Finding(AssertionError):
    """Something is not within its bound for certain."""

    def __init__(self, result):
        super().__init__(str(result))
        self.result = result


def _number(value):
    return float.fromhex(value) if isinstance(value, str) else float(value)


def _is_finding(record):
    verdict = record["verdict"]
    return verdict in _FINDINGS or (verdict == "vacuous" and not record.get("allowed_vacuous"))


def _ratio(record):
    ratio = record.get("ratio", -1)
    return float(ratio) if ratio is not None else -1


class Result:
    """Records as reports/README.md has them, each a dictionary."""

    def __init__(self):
        self.records = []
        self._lines = []

    def add(self, line):
        """One line of JSON."""
        self.records.append(json.loads(line))
        self._lines.append(line)

    def keep(self, is_meant):
        """Forgets the records of which `is_meant` is false."""
        kept = [i for i, record in enumerate(self.records) if is_meant(record)]
        self.records = [self.records[i] for i in kept]
        self._lines = [self._lines[i] for i in kept]

    @property
    def counts(self):
        """Records by verdict."""
        return collections.Counter(record["verdict"] for record in self.records)

    @property
    def checked(self):
        """Elements that were judged."""
        return sum(record.get("counts", {}).get("checked", 0) for record in self.records)

    @property
    def largest_ratio(self):
        """Of error and bound; -1 where nothing was judged."""
        return max((_ratio(record) for record in self.records), default=-1.0)

    @property
    def findings(self):
        """The records that are not as they should be."""
        return [record for record in self.records if _is_finding(record)]

    @property
    def passed(self):
        """Is there no finding, and anything that was judged?"""
        return not self.findings and self.checked > 0

    @property
    def worst(self):
        """The record with the worst verdict, of these with the largest ratio; None of none."""
        def badness(record):
            return (_is_finding(record), -VERDICTS.index(record["verdict"]), _ratio(record))
        return max(self.records, key=badness, default=None)

    def require(self):
        """Raises Finding unless `passed`; gives itself."""
        if not self.passed:
            raise Finding(self)
        return self

    def save(self, path):
        """Appends the records to a file that `opbound table`, `explain` and `diff` read. A file
        that holds anything else is left as it is: opbound.Error."""
        path = _words.path("path", path)
        try:
            with open(path, "a+b") as file:
                _must_hold_records(file, path)
                file.write("".join(line + "\n" for line in self._lines).encode())
        except OSError as error:
            raise _library.Error(f"{path}: {error.strerror}, expected a file of records, or a new "
                                 "one in a folder that is there") from None

    def __str__(self):
        counts = self.counts
        line = ", ".join(f"{verdict} {counts[verdict]}" for verdict in reversed(VERDICTS)
                         if counts[verdict] or verdict in ("within", "exceeds"))
        line += f"; {self.checked} elements checked"
        worst = self.worst
        return line if worst is None else f"{line}\n{describe(worst)}"

    def __repr__(self):
        return f"<opbound.Result {dict(self.counts)}>"


def _must_hold_records(file, path):
    file.seek(0)
    for number, line in enumerate(file, 1):
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not (isinstance(record, dict) and "op" in record and "verdict" in record
                and line.endswith(b"\n")):
            raise _library.Error(f"{path}:{number}: is no record, expected a file of records "
                                 "alone, or a new one")


def describe(record):
    """A record in two lines."""
    words = [record["op"], record.get("part", ""), record.get("direction", ""),
             record.get("precision", ""), record.get("variant", "")]
    place = record.get("case", {})
    text = f"{record['verdict']}: {' '.join(w for w in words if w)}"
    if "shape" in place:
        text += " " + " ".join(f"{name}={size}" for name, size in place["shape"].items())
    if "input" in place:
        text += f", {place['input']}"
    if record.get("reason"):
        text += f"\n  {record['reason']}"
    worst = record.get("worst")
    if worst:
        low, high = _number(worst["low"]), _number(worst["high"])
        text += (f"\n  error / bound = {_ratio(record):.3g} at element {worst['index']}: got "
                 f"{_number(worst['got']):.9g}, exact {low / 2 + high / 2:.9g}, bound "
                 f"{_number(worst['bound']):.3g}")
        for name, value in (worst.get("input") or {}).items():
            text += f", {name} = {_number(value):.9g}"
    return text
