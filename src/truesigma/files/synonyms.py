"""Other names for the columns and arrays that are read: used to say which to rename, never to guess."""

import difflib
import re
import warnings
from collections.abc import Iterable, Sequence

from .fields import KNOWN, LABELS, NUMBERS

PATIENTS = (  # what others call the patient, in the form of `plain`
    *(who + mark for who in ("patient", "subject", "participant", "patienten", "proband")
      for mark in ("", "id", "no", "nr", "num", "number", "nummer", "name", "key", "code")),
    "pid", "mrn",
)  # fmt: skip
ELSEWHERE = {  # in English and in German spreadsheets
    "target": ("truth", "true", "y", "ytrue", "label", "groundtruth", "observed", "gt", "zielwert", "istwert"),
    "location": (
        "prediction", "predicted", "pred", "ypred", "yhat", "mean", "mu", "output", "vorhersage", "prognose",
    ),
    "scale": (
        "sd", "std", "sigma", "stddev", "ystd", "uncertainty", "unc", "standardabweichung", "stabw", "unsicherheit",
    ),
    "variance": ("var", "yvar", "varianz"),
    "patient": PATIENTS,
    "group": ("site", "scanner", "klinik", "standort"),
}  # fmt: skip
STARTS = {"target": ("true_", "gt_")}
LOGS = ("logvar", "logvariance", "logsigma2")  # of the variance


def warn_near_misses(names: Iterable[str]) -> None:
    """Say, in one sentence, if ignored names look like names that would be read, such as `weights`."""
    names = list(names)
    stems = {name.rstrip("0123456789").rstrip("_") for name in names}
    pairs = [(stem, _near(stem)) for stem in sorted(stems - set(KNOWN))]
    pairs = [(stem, near) for stem, near in pairs if near and near not in stems]
    if pairs:
        read, known = (", ".join(map(repr, side)) for side in zip(*pairs))
        words = ("is", "is it", "it") if len(pairs) == 1 else ("are", "are they", "them")
        warnings.warn(
            f"{read} {words[0]} not read; {words[1]} {known}? Rename {words[2]} then.", stacklevel=3
        )
    patients = [name for one in PATIENTS for name in names if plain(name) == one]
    if patients and "patient" not in stems and "target" in stems:
        warnings.warn(
            f"{patients[0]!r} is not read; name it 'patient', or say --column patient={patients[0]}, and standard "
            "errors and intervals count patients instead of cases.",
            stacklevel=3,
        )


def rename_hint(names: Sequence[str]) -> str:
    """Say which columns look as if they could be renamed; this follows what was expected."""
    found = {}
    for stem in (*NUMBERS, "mask", *LABELS):
        others = (stem, *ELSEWHERE.get(stem, ()))
        alike = [
            name for name in names if plain(name) in others or name.lower().startswith(STARTS.get(stem, ()))
        ]
        if alike and stem not in names:
            found[stem] = alike
    pairs = [f"{' or '.join(alike)} to {stem}" for stem, alike in found.items()]
    hints = [f". Rename {', '.join(pairs)}, if that is what they are"] if pairs else []
    hints += [f". Write the exponential of {name} as variance" for name in names if plain(name) in LOGS]
    absent = [stem for stem in ("target", "location", "scale") if stem not in names]
    chosen = {stem: found.get(stem, ["NAME"])[0] for stem in absent}
    if chosen:
        hints.append(
            f". Or say which is which: {' '.join(f'--column {k}={name}' for k, name in chosen.items())}"
        )
    if any(re.search(r"_\d+$", name) for name in names):
        hints.append(". Several outputs are target_0, target_1 and location_0, location_1, or have names")
    return "".join(hints)


def plain(name: str) -> str:
    """Strip a name of capitals and separators.

    >>> plain("Patient_ID")
    'patientid'
    """
    return re.sub(r"[\W_]+", "", name).lower()


def _near(stem: str) -> str:
    return next(iter(difflib.get_close_matches(stem.lower(), KNOWN, n=1, cutoff=0.85)), "")
