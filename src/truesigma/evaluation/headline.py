"""What follows from the rows of the five questions: the first sentences, and the lines below a table."""

import math
from collections.abc import Mapping, Sequence

from ..core.checks import per_cent
from .verdicts import NEAR, NONE, Row, although, distance, figures, times, too_sure, too_wide

FAULTS = {
    "skill": "no better than a constant",
    "centre": "biased",
    "knowing": "hard cases missed",
    "shape": "errors of another shape",
}


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
    return " ".join(filter(None, (first_sentence(rows, label, title), other_faults(rows, label))))


def first_sentence(rows: Sequence[Row], label: str, title: str = "") -> str:
    """Say whether sigma is the right size, before and after one recalibration, and whether there is any skill."""
    before, after = (whole(rows, name) for name in (NONE, label))
    said = [_size_sentence(rows, label, title)]
    words = str(after["skill"]["words"]).partition(";")[0]
    if after["skill"]["verdict"] != "fine" and not words.startswith("RMSE") and "too few" not in words:
        said.insert(0, f"Predictions {words if words.startswith('cannot') else f'are {words}'}.")
    if "off" in (before["size"]["verdict"], after["size"]["verdict"]) and after["skill"]["verdict"] != "off":
        said.reverse()
    return " ".join(filter(None, said))


def other_faults(rows: Sequence[Row], label: str) -> str:
    """Say in one sentence what else is off, and for whom; the rows say how much."""
    before, after = (whole(rows, name) for name in (NONE, label))
    faults = []
    if after["centre"]["verdict"] == "off":
        where, _, words = str(after["centre"]["words"]).partition(" [")[0].rpartition(": ")
        faults.append(f"{words} for {where}" if where else words)
    if after["knowing"]["verdict"] == "off":
        apart = after["knowing"]["parts"].get("apart")
        words = str(after["knowing"]["words"]).partition(":")[0]
        faults.append(f"sigma misses the hard cases of every {apart}" if apart else words)
    if after["shape"]["verdict"] == "off":
        faults.append("errors do not have the shape that the intervals assume")
    named = [name for row in (before, after) for name, _ in culprits_of(row["size"])]
    odd = {name: some for name, some in _odd_ones(rows, label).items() if name not in named}
    if (
        culprits_of(after["size"]) or "apart" in after["size"]["parts"]
    ):  # the first sentence has spoken of sizes
        odd = {name: some for name, some in odd.items() if {row["question"] for row in some} != {"size"}}
    if odd:
        faults.append(f"least true for {_listed(list(odd), 2)}")
    if not faults:
        return ""
    start = "Also," if "off" in (after["skill"]["verdict"], after["size"]["verdict"]) else "But"
    return f"{start} {'; '.join(faults)}."


def _size_sentence(rows: Sequence[Row], label: str, title: str) -> str:
    before, after = (whole(rows, name)["size"] for name in (NONE, label))
    if "few" in after["parts"] and {before["verdict"], after["verdict"]} == {"unclear"}:
        return f"{after['parts']['few']} are too few to tell whether sigma is the right size."
    first, then = _before(rows, before, after), _after(rows, label, before, after)
    if label == NONE:
        return f"{first}."
    return (
        f"{first}; after {title or label} {then}." if then else f"{first}, before and after {title or label}."
    )


def _before(rows: Sequence[Row], before: Row, after: Row) -> str:
    if "held" in before["parts"]:
        said = _intervals(before)
        return said[0].upper() + said[1:]
    if culprits_of(before):
        return f"Sigma is {_for_culprits(before)}"
    if each := _for_each(rows, NONE, after["parts"].get("apart") or after["parts"].get("two", "")):
        return f"Sigma is {each}"
    if doubt := _doubt(rows, NONE):
        return f"Sigma {doubt}"
    if before["estimate"] is None or _nothing_told(before):
        return "Whether sigma is the right size cannot be told"
    none = "There is no sign that sigma is the wrong size"
    return {"fine": "Sigma is the right size", "unclear": none}.get(
        before["verdict"], f"Sigma is {_wrong_size(before)}"
    )


def _after(rows: Sequence[Row], label: str, before: Row, after: Row) -> str:
    """What is true after a recalibration; "" for the same as before."""
    found = after["parts"]
    if "held" in found:
        return (
            "" if _intervals(after) == _intervals(before) and "held" in before["parts"] else _intervals(after)
        )
    if culprits_of(after):
        return f"it is {_for_culprits(after, [name for name, _ in culprits_of(before)])}"
    if "apart" in found:
        return _for_each(rows, label, found["apart"], said=bool(_for_each(rows, NONE, found["apart"])))
    if after["verdict"] == "off":
        worse = ", worse than before" if found.get("worse") else ""
        differ = ": calibration and test disagree" if found.get("differ") else ""
        differ = differ or (": gross outliers decide the factor" if found.get("spoiled") else "")
        return f"it is {_wrong_size(after)}{worse}{differ}"
    if doubt := _doubt(rows, label):
        return f"it {doubt}"
    if _nothing_told(after):
        from_few = f" from {found['few fitted on']}" if "few fitted on" in found else ""
        return f"whether it is the right size cannot be told{from_few}"
    if after["verdict"] == before["verdict"] and not _doubt(rows, NONE):
        return ""
    if culprits_of(before) and (worst := _still_possible(rows, label, *culprits_of(before)[0])):
        return f"it may still be up to {worst} there"
    if after["verdict"] == "fine":
        return "it is the right size"
    unknown = after["estimate"] is None or _further(before, after)
    return "whether it is cannot be told" if unknown else "there is no sign that it is off"


def _still_possible(rows: Sequence[Row], label: str, name: str, value: float) -> str:
    """How far off sigma may still be for one that was off, on the same side; "" if that is near the right size."""
    sizes = (row for row in rows if (row["recalibration"], row["question"]) == (label, "size"))
    row = next(row for row in sizes if row["name"] == name and "held" not in row["parts"])
    end = row["high"] if value > 1 else row["low"]
    return "" if end is None or 1 - NEAR <= end <= 1 + NEAR or (end > 1) != (value > 1) else times(end)


def _nothing_told(row: Row) -> bool:
    """Whether the size is of too few calibration cases, or its interval too wide, to speak of no sign."""
    known = row["low"] is not None and row["high"] is not None and "held" not in row["parts"]
    wide = known and ("few fitted on" in row["parts"] or too_wide(row["low"], row["high"]))
    return wide and row["verdict"] == "unclear"


def _intervals(row: Row) -> str:
    """The verdict on bounds, or after a recalibration that leaves sigma as it was."""
    apart = f"intervals are off for every {row['parts'].get('apart')}"
    off = apart if "apart" in row["parts"] else str(row["words"]).partition(":")[0]
    fine, unclear = "intervals hold what they promise", "there is no sign that intervals are off"
    return {"off": off, "fine": fine, "unclear": unclear}[row["verdict"]]


def _doubt(rows: Sequence[Row], label: str) -> str:
    """Say what sigma may be where no verdict says it: the interval of all lacks 1, or that of a part is far from it."""
    rows = [row for row in rows if (row["recalibration"], row["question"]) == (label, "size")]
    first = next(row for row in rows if (row["output"], row["group"]) == (None, None))
    unclear = [row for row in rows if row["verdict"] == "unclear" and not row["parts"].get("like the others")]
    far = [row for row in unclear if without_one(row, 0.0 if row is first else NEAR)]
    if first["verdict"] == "off" or not far or "held" in first["parts"]:
        return ""
    gravest = first if first in far else max(far, key=distance)
    for_whom = "" if gravest is first else f" for {gravest['name']}"
    return f"may be {times(gravest['estimate'], gravest['low'], gravest['high'])}{for_whom}"


def without_one(row: Row, near: float = 0.0) -> bool:
    """Whether the interval of a size is beyond 1 by more than this."""
    known = "held" not in row["parts"] and row["low"] is not None and row["high"] is not None
    return known and (row["low"] > 1 + near or row["high"] < 1 - near)


def _for_each(rows: Sequence[Row], label: str, kind: str, *, said: bool = False) -> str:
    """How wrong sigma is for the two outputs or groups that are furthest apart; "" unless it is off for all.

    said: whether the two were just named.
    """
    rows = [row for row in rows if (row["recalibration"], row["question"]) == (label, "size")]
    parts = [row for row in rows if row.get(kind) is not None and "untold" not in row["parts"]]
    if not parts or any(row["verdict"] != "off" for row in parts):
        return ""
    ends = sorted(parts, key=lambda row: row["estimate"])
    first, last = (row for row in parts if row in (ends[0], ends[-1]))
    if said and len(parts) == 2:
        return f"{times(first['estimate'])} and {_beside(times(first['estimate']), times(last['estimate']))}"
    more = f", and off for every {kind}" if len(parts) > 2 else ""
    told = _beside(times(first["estimate"]), times(last["estimate"]))
    return f"{times(first['estimate'])} for {first['name']}, {told} for {last['name']}{more}"


def _beside(first: str, second: str) -> str:
    """What the second says that the first has not said."""
    value, _, side = second.partition(" times ")
    return second if not side else value if first.endswith(side) else f"{value} {side}"


def culprits_of(row: Row) -> Sequence[tuple[str, float]]:
    """Outputs or groups whose sigma is the wrong size where that of most is not, the gravest first."""
    return row["parts"].get("culprits", ())


def _for_culprits(row: Row, there: Sequence[str] = ()) -> str:
    """How wrong sigma is for the gravest, and for all others; "there" where it was just named."""
    name, value = culprits_of(row)[0]
    same, said = name in there, times(value)
    where = "there" if same else f"for {name}"
    rest = row["parts"].get("rest")
    if rest is not None and rest[1] >= 1 - 2 * NEAR and rest[2] <= 1 + 2 * NEAR and abs(rest[0] - 1) <= NEAR:
        about = "" if rest[1] >= 1 - NEAR and rest[2] <= 1 + NEAR else "about "
        return f"{said} {where}" if same else f"{said} {where} and {about}the right size elsewhere"
    if rest is None or not row["parts"]["rest is off"]:
        return f"{said} {where}"
    return f"{said} {where}, {_beside(said, times(rest[0]))} elsewhere"


def _further(before: Row, after: Row) -> bool:
    """Whether recalibration moved sigma away from the right size by the estimates, as it can with few cases."""
    both = before["estimate"] and after["estimate"]
    return bool(both) and abs(math.log(after["estimate"])) > abs(math.log(before["estimate"]))


def _wrong_size(row: Row) -> str:
    return times(row["estimate"]) + although(row["estimate"], row["parts"]) if row["estimate"] else ""


def _odd_ones(rows: Sequence[Row], label: str) -> dict[str, list[Row]]:
    """Outputs and groups for which something is off that is not off alike for all, the gravest size first."""
    found: dict[str, list[Row]] = {}
    common = {question for question, row in whole(rows, label).items() if row["verdict"] == "off"}
    for kind in ("output", "group"):
        parts = [row for row in rows if row["recalibration"] == label and row[kind] is not None]
        for question in dict.fromkeys(row["question"] for row in parts):
            asked = [row for row in parts if row["question"] == question]
            off = [row for row in asked if row["verdict"] == "off"]
            alike = len(off) == len(asked) and len(set(map(fault, off))) == 1
            for row in () if question in common and alike else off:
                found.setdefault(row["name"], []).append(row)
    return dict(sorted(found.items(), key=lambda one: -max(map(distance, one[1]))))


def for_whom_not(rows: Sequence[Row], label: str) -> str:
    """Name those for which something is off that is not off for all of them, and what."""
    odd = _odd_ones(rows, label)
    return _listed([f"{name} ({', '.join(map(fault, some))})" for name, some in odd.items()], 3)


def fault(row: Row) -> str:
    """What is off, in a word or two."""
    if row["question"] == "size":
        return "too sure" if too_sure(row) else "not sure enough"
    return FAULTS[row["question"]]


def whose_average(rows: Sequence[Row], label: str) -> str:
    """Give the scores whose mean over cases is not that over patients, of their cases, beyond the error of both."""
    found = whole(rows, label)["size"]["parts"].get("averages", {})
    said = []
    for name, both in found.items():
        share = name.endswith("hold")
        words = [per_cent(one) if share else figures(one) for one in both]
        said.append(f"{name} {' and '.join(words)}{' %' if share else ''}")
    return f"of cases, and of a patient's cases on average: {'; '.join(said)}" if said else ""


def _listed(words: Sequence[str], most: int) -> str:
    """The first of them, and how many more."""
    more = [f"{len(words) - most} more"] if len(words) > most else []
    *first, last = [*words[:most], *more] or [""]
    return f"{', '.join(first)} and {last}" if first else last
