"""Whether a result is whole, and of the experiment whose name it has: asked once, when it is read."""

from collections.abc import Mapping, Sequence
from typing import Any

from truesigma.core import Host

from .plan import LAWS, Planned

SPLITS = ("valid", "test")  # without these there is no score


class Damaged(ValueError):
    """A result that cannot be used; the message says what is wrong with it."""


def check_whole(
    about: Mapping[str, Any], history: Sequence[Mapping[str, float | None]], arrays: Mapping[str, Host]
) -> None:
    """Refuse a result whose files do not go together: run.json, history.csv and draws.npz."""
    if about["likelihood"] not in LAWS:
        raise Damaged(f"its likelihood is {about['likelihood']!r}; expected {' or '.join(LAWS)}")
    if len(history) != about["epochs"] or not 1 <= about["best_epoch"] <= about["epochs"]:
        raise Damaged(f"history.csv has {len(history)} rows; run.json says {about['epochs']} epochs")
    for split in SPLITS:
        cases = arrays[f"{split}.residual"].shape[2]
        if cases != about["cases"][split]:
            raise Damaged(f"draws.npz holds {cases} cases of {split}; run.json says {about['cases'][split]}")


def check_planned(about: Mapping[str, Any], planned: Planned) -> None:
    """The result is of the planned network: its length of training may be another, what it is may not."""
    chosen = about["recipe"].get("network", {})
    names = ("data_set", "network", "likelihood", "seed")
    stated = {key: (about[key], getattr(planned, key)) for key in names}
    started = (about.get("weights") or {}).get("file", "")
    stated["weights"] = (started or "random", planned.weights or "random")
    stated |= {key: (chosen[key], value) for key, value in planned.train.items() if key in chosen}
    if other := [
        f"{key} is {one}, planned {wanted}" for key, (one, wanted) in stated.items() if one != wanted
    ]:
        raise Damaged(f"it is of another experiment: {', '.join(other)}")
