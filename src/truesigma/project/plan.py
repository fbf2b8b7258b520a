"""--dry-run: plan a run, its cases, and from a few timed steps its time and memory."""

from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from .ledger import RUNS, changes, read_ledger, touched
from .project import read_project
from .race import expected
from .run import parts_of
from .work import Work, open_work


@dataclass(frozen=True, eq=False)
class Plan:
    """A planned run; seconds and bytes were measured on a few steps on this machine."""

    cases: dict[str, int]
    groups: dict[str, int]  # or patients, if they are known
    of: str  # which of the two they are
    image: tuple[int, ...]
    unit: tuple[str, ...]
    parts: list[dict[str, Any]]  # part, words, done
    changed: list[str]
    plans: list[str]  # that compete; the rest is said of the first of them
    minutes: float  # that they have
    parameters: int
    device: str
    seconds: dict[str, float]  # epoch; training of all networks that are not trained yet; sampling
    bytes: dict[str, int]  # memory; images in it; disk

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Describe the plan, line by line."""
        shape = " x ".join(map(str, self.image))
        splits = [
            f"{name} {count}" + (f" ({self.groups[name]} {self.of})" if name in self.groups else "")
            for name, count in self.cases.items()
        ]
        images = f"images: {shape}, {size(self.bytes['images'])} in memory"
        lines = [f"cases: {', '.join(splits)}", images, "will do:"]
        for number, part in enumerate(self.parts, start=1):
            lines.append(f"  {number}. {part['words']}{', done before' if part['done'] else ''}")
        place = "on the GPU" if self.device.startswith("cuda") else "of this process"
        train, draw = (timedelta(seconds=round(self.seconds[name])) for name in ("training", "sampling"))
        lines += [
            f"network: {self.parameters / 1e6:.3g} million parameters, on {self.device}",
            f"time: training {train}, drawing {draw} (h:min:s), then the "
            f"report; estimated from a few steps timed now, {self.seconds['epoch']:.3g} s an epoch",
            f"memory: {size(self.bytes['memory'])} {place} at the peak of these steps; disk: about "
            f"{size(self.bytes['disk'])}",
        ]
        if self.plans:
            minutes = "1 minute" if self.minutes == 1 else f"{self.minutes:g} minutes"
            within = f"{', '.join(self.plans)} compete within {minutes}"
            lines[2:2] = [f"plans: {within}; the following is of the first, with as many epochs as fit"]
        if self.changed:
            lines.append(f"changed since: {'; '.join(self.changed)}; needs --redo")
        return lines


def plan_project(recipe: str | Path, out: str | Path | None = None, *, device: str = "auto") -> Plan:
    """Read the data, try a few steps, and say what a run will do; nothing is written.

    Args:
        recipe: the path of a recipe.toml.
        out: the folder of the results; None: the recipe's.
        device: as for `run_project`.
    """
    from ..imaging.data.dataset import DataSet
    from ..imaging.data.fingerprint import fingerprints

    project = read_project(recipe)
    folder = project.results(out)
    minutes = project.train.minutes
    project, plans = expected(project, folder, device)
    work = open_work(project, folder, device)
    data: DataSet = work.data
    ledger = read_ledger(folder)
    differences = {} if ledger is None else changes(ledger, project.tables(), fingerprints(data))
    parts = parts_of(work)
    start, anew = (0, False) if ledger is None else touched(ledger, project.tables(), differences)
    done = {
        part.name: ledger is not None and part.stage < start and ledger.is_done(part.name) for part in parts
    }
    trial, parameters = _try(work)
    epochs = to_draw = 0
    for stage, _, which in (part.name.partition(" ") for part in parts if not done[part.name]):
        if stage == "train":
            epochs += project.train.epochs if anew else _left(work, int(which))
        elif stage == "sample":
            to_draw += len(data.splits[which])
    first = next(iter(data.splits.values()))
    dropout = project.sample.method == "dropout"
    draws = project.sample.draws if dropout else project.sample.networks
    drawn = sum(len(data.splits[name]) for name in {project.calibrate.split, "test"})
    return Plan(
        cases={name: len(split) for name, split in data.splits.items()},
        groups={
            name: len(set(split.together))
            for name, split in data.splits.items()
            if split.together is not None
        },
        of="groups" if first.patient is None else "patients",
        image=first.shape,
        unit=data.unit,
        parts=[{"part": part.name, "words": part.words, "done": done[part.name]} for part in parts],
        changed=list(differences.values()),
        plans=plans,
        minutes=minutes,
        parameters=parameters,
        device=trial.device,
        seconds={"epoch": trial.epoch, "training": epochs * trial.epoch, "sampling": to_draw * trial.draw},
        bytes={
            "memory": trial.memory,
            "images": _bytes(data),
            # weights twice and the optimiser's two moments; draws of mean and variance
            "disk": 16 * parameters * project.sample.networks + 8 * draws * drawn * data.outputs,
        },
    )


def _try(work: Work) -> Any:
    from ..core.law import LAWS
    from ..imaging.network.two_head import build
    from ..imaging.prediction.timing import try_out

    project = work.project
    recipe = project.training
    nets = [
        build(
            project.backbone(), work.data.channels, work.data.outputs, recipe,
            variances=project.network.variances, seed=k, inputs=len(work.data.inputs),
            link=project.network.link,
            # Says at once if they are not available.
            pretrained=project.network.pretrained and k == 0,
            weights=project.home / project.network.weights if project.network.weights and k == 0 else None,
        )
        for k in range(project.sample.networks)
    ]  # fmt: skip
    trial = try_out(
        nets,
        work.member(0)[1],
        recipe,
        likelihood=project.network.likelihood,
        law=LAWS[project.network.likelihood],
        precision=project.train.precision,
        device=work.device,
        draws=project.sample.draws if project.sample.method == "dropout" else None,
        batch=project.sample.batch,
    )
    return trial, sum(parameter.numel() for parameter in nets[0].parameters())


def _left(work: Work, member: int) -> int:
    """Return how many of a network's epochs are still to be trained."""
    from ..imaging.training.folder import HISTORY

    file = work.folder / RUNS / str(member) / HISTORY
    done = len(file.read_text(encoding="utf-8").splitlines()) - 1 if file.is_file() else 0
    return max(0, work.project.train.epochs - done)


def _bytes(data: Any) -> int:
    """Count the bytes of images kept in memory; streamed images take none."""
    held = [split.images for split in data.splits.values()]
    return sum(images.numel() * images.element_size() for images in held if hasattr(images, "numel"))


def size(count: float) -> str:
    """Write a number of bytes in words.

    >>> size(2_500_000)
    '2.5 MB'
    """
    for unit, one in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= one:
            return f"{count / one:.3g} {unit}"
    return f"{count:.0f} bytes"
