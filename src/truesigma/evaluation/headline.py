"""What follows from the rows of the five questions: the first sentences, and the lines below a table."""

import math
from collections.abc import Mapping, Sequence

from ..core.checks import per_cent
from .verdicts import CONTENT, NEAR, NONE, Row, although, distance, times


def told(rows: Sequence[Row], label: str) -> dict[str, dict[str, Row]]:
    """Word each question: the answer before and after recalibration, or one answer if nothing changes."""
    before, after = (whole(rows, name) for name in (NONE, label))
    found = {}
    for key, last in after.items():
        first = before[key]
        moved = first["words"] != last["words"] and first["verdict"] != last["verdict"]
        changed = moved or (key == "size" and "before" in last["parts"])
        found[key] = {"before": first, "after": last} if changed else {"": last}
    return found


def lines(rows: Sequence[Row], label: str, asked: Mapping[str, str]) -> list[str]:
    """Write a line for each question, before and after one recalibration, and for groups that differ."""
    found = []
    for key, said in told(rows, label).items():
        for when, row in said.items():
            title = f"  after {label}" if when == "after" else asked[key]
            found.append(f"{title:<30}{row['verdict']:<9}{row['words']}")
    last = {"For whom not?": for_whom_not(rows, label), "Whose average?": whose_average(rows, label)}
    return [*found, *(f"{title:<30}{words}" for title, words in last.items() if words)]


def whole(rows: Sequence[Row], label: str) -> dict[str, Row]:
    """The answers for all outputs and groups together, by question."""
    chosen = (row for row in rows if (row["output"], row["group"]) == (None, None))
    return {row["question"]: row for row in chosen if row["recalibration"] == label}


def headline(rows: Sequence[Row], label: str, title: str = "") -> str:
    """Write the sentences that follow from the answers before and after one recalibration, the gravest first."""
    before, after = (whole(rows, name) for name in (NONE, label))
    said = []
    if after["skill"]["verdict"] != "fine":
        words = str(after["skill"]["words"]).partition(";")[0]
        said.append(f"Predictions {words if words.startswith('cannot') else f'are {words}'}.")
    said.append(_size_sentence(rows, label, title))
    if "off" in (before["size"]["verdict"], after["size"]["verdict"]) and after["skill"]["verdict"] != "off":
        said.reverse()
    faults = []
    if after["centre"]["verdict"] == "off":
        faults.append("predictions are biased")
    if after["knowing"]["verdict"] == "off":
        apart = after["knowing"]["parts"].get("apart")
        words = str(after["knowing"]["words"]).partition(":")[0]
        faults.append(f"sigma misses the hard cases of every {apart}" if apart else words)
    if after["shape"]["verdict"] == "off":
        faults.append("errors do not have the shape that the intervals assume")
    whom = for_whom_not(
        rows, label, besides=[name for row in (before, after) for name, _ in culprits_of(row["size"])]
    )
    if whom:
        faults.append(f"not for everyone: {whom}")
    if faults:
        start = "Also," if "off" in (after["skill"]["verdict"], after["size"]["verdict"]) else "But"
        said.append(f"{start} {_listed(faults)}.")
    return " ".join(said)


def _size_sentence(rows: Sequence[Row], label: str, title: str) -> str:
    before, after = (whole(rows, name)["size"] for name in (NONE, label))
    words = {
        "fine": "Sigma is the right size",
        "unclear": "There is no sign that sigma is the wrong size",
        "off": f"Sigma is {_wrong_size(before)}",
    }
    doubts = [_doubt(rows, name) for name in (NONE, label)]
    if before["estimate"] is None:
        words["unclear"] = "Whether sigma is the right size cannot be told"
    first = f"Sigma is {_for_culprits(before)}" if culprits_of(before) else words[before["verdict"]]
    first = f"Sigma {doubts[0]}" if doubts[0] else first
    if label == NONE:
        return f"{first}."
    named = title or label
    if culprits_of(after):
        there = [name for name, _ in culprits_of(before)]
        return f"{first}; after {named} it is {_for_culprits(after, there)}."
    apart = [row["parts"].get("apart") for row in (before, after)]
    if apart[0] and apart[0] == apart[1]:
        return f"{first}, before and after {named}."
    if after["verdict"] == "off" and "held" in after["parts"]:
        return f"{first}; after {named} {str(after['words']).partition(':')[0]}."
    if after["verdict"] == "off":
        worse = ", worse than before" if after["parts"].get("worse") else ""
        differ = ": calibration and test disagree" if after["parts"].get("differ") else ""
        differ = differ or (": gross outliers decide the factor" if after["parts"].get("spoiled") else "")
        return f"{first}; after {named} it is {_wrong_size(after)}{worse}{differ}."
    then = {"fine": "it is the right size", "unclear": "there is no sign that it is off"}[after["verdict"]]
    if after["estimate"] is None or (after["verdict"] == "unclear" and _further(before, after)):
        then = "whether it is cannot be told"
    if "held" in after["parts"]:
        then = {"fine": "intervals hold what they promise"}.get(
            after["verdict"], "there is no sign that intervals are off"
        )
    then = f"it {doubts[1]}" if doubts[1] else then
    same = before["verdict"] == after["verdict"] and doubts == ["", ""] and "held" not in after["parts"]
    return f"{first}, before and after {named}." if same else f"{first}; after {named} {then}."


def _doubt(rows: Sequence[Row], label: str) -> str:
    """Say what sigma may be where no verdict says it, and the interval of all, or of a part, is far from 1."""
    rows = [row for row in rows if (row["recalibration"], row["question"]) == (label, "size")]
    first = next(row for row in rows if (row["output"], row["group"]) == (None, None))
    far = [row for row in rows if row is first or not row["parts"].get("like the others")]
    far = [row for row in far if row["low"] is not None and row["high"] is not None]
    far = [
        row
        for row in far
        if row["verdict"] == "unclear" and (row["low"] > 1 + NEAR or row["high"] < 1 - NEAR)
    ]
    if first["verdict"] == "off" or not far or "held" in first["parts"]:
        return ""
    gravest = first if first in far else max(far, key=distance)
    for_whom = "" if gravest is first else f" for {gravest['name']}"
    return f"may be {times(gravest['estimate'], gravest['low'], gravest['high'])}{for_whom}"


def culprits_of(row: Row) -> Sequence[tuple[str, float]]:
    """Outputs or groups whose sigma is the wrong size where that of most is not, the gravest first."""
    return row["parts"].get("culprits", ())


def _for_culprits(row: Row, there: Sequence[str] = ()) -> str:
    """How wrong sigma is for the gravest, and for all others; "there" where it was just named."""
    name, value = culprits_of(row)[0]
    said = f"{times(value)} {'there' if name in there else f'for {name}'}"
    rest = row["parts"].get("rest")
    if rest is None:
        return said
    if rest[1] >= 1 - NEAR and rest[2] <= 1 + NEAR:
        return f"{said} and the right size elsewhere"
    return said + (
        f", {times(rest[0])} elsewhere" if rest[1] > 1 or rest[2] < 1 else ", with no sign of that elsewhere"
    )


def _further(before: Row, after: Row) -> bool:
    """Whether recalibration moved sigma away from the right size by the estimates, as it can with few cases."""
    both = before["estimate"] and after["estimate"]
    return bool(both) and abs(math.log(after["estimate"])) > abs(math.log(before["estimate"]))


def _wrong_size(row: Row) -> str:
    if row["parts"].get("apart"):
        return f"the wrong size for every {row['parts']['apart']}"
    return times(row["estimate"]) + although(row["estimate"], row["parts"]) if row["estimate"] else ""


def for_whom_not(rows: Sequence[Row], label: str, besides: Sequence[str] = ()) -> str:
    """Outputs and groups for which something is off that is not off for all of them, the gravest size first."""
    found: dict[str, list[Row]] = {}
    common = {question for question, row in whole(rows, label).items() if row["verdict"] == "off"}
    for kind in ("output", "group"):
        parts = [row for row in rows if row["recalibration"] == label and row[kind] is not None]
        for question in dict.fromkeys(row["question"] for row in parts):
            asked = [row for row in parts if row["question"] == question]
            off = [row for row in asked if row["verdict"] == "off"]
            for row in () if question in common and len(off) == len(asked) else off:
                found.setdefault(row["name"], []).append(row)
    gravest = sorted(found.items(), key=lambda one: -max(map(distance, one[1])))
    names = [
        f"{name} ({', '.join(row['question'] for row in some)})"
        for name, some in gravest
        if name not in besides
    ]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def whose_average(rows: Sequence[Row], label: str) -> str:
    """Say what intervals hold of the cases and of a patient's, where the two differ by more than their error."""
    both = whole(rows, label)["size"]["parts"].get("averages")
    if both is None:
        return ""
    cases, patients = map(per_cent, both)
    return f"{100 * CONTENT:.0f} % intervals hold {cases} % of the cases; of a patient's cases, {patients} % on average"


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{'; '.join(words[:-1])}; and {words[-1]}"
