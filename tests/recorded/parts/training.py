"""Commands of the imaging half: train, predict, ensemble, calibrate and apply on their output, export."""

import shutil

from .. import folders
from ..book import Book

TRAIN = "--backbone small --epochs 2 --batch 4 --device cpu"


def record(book: Book) -> None:
    import torch

    torch.set_num_threads(1)
    folders.images(book.folder / "ages", 16, side=12, split=True)
    folders.images(book.folder / "volumes", 12, side=8, volumes=True, ending=".npy", split=True)
    folders.plugins(book.folder)
    (book.folder / "data").mkdir()
    _train(book)
    _predict(book)
    _export(book)


def _train(book: Book) -> None:
    options = {"csv": "labels.csv", "image": "file", "target": "age", "group": "patient", "unit": "months"}
    table = " ".join(f"--option {k}={v}" for k, v in options.items())
    base = f"train table --root ages {table} {TRAIN}"
    for name, more in {
        "a": "",
        "b": "--seed 1 --quiet",
        "laplace": "--likelihood laplace --variances each --json -",
        "paper": "--recipe paper --learning-rate 0.01 --patience 1 --json paper.json",
        "dropout": "--stage-dropout 0.1 --head-dropout 0.4 --precision bf16 --workers 1",
        "started": "--weights a/best.safetensors --checkpoint-every 60",
        "stopped": "--time-limit 0",
        "limit": "--time-limit 30m",
        "flipped": "--option flip=true --option shift=1 --option size=10",
        "two": "--option target=age,size --option unit=months,mm",
        "streamed": "--option memory=0.0000001",
    }.items():
        book.command(f"{base} {more} -o {name}", label=f"train {name}: {more}")
    book.command(f"{base} -o a", label="train a again")
    book.command(f"{base} --epochs 3 -o b --seed 1", label="train b on")
    book.command(f"{base} -o b --no-resume", label="train b anew")
    sim = "--option cases=24 --option train=8 --option valid=8 --option size=16"
    book.command(f"train simulated --root data {sim} {TRAIN} -o sim --json -")
    book.command("train table --root volumes --option csv=labels.csv --option image=file --option target=age "
                 f"{TRAIN.replace('small', 'small3d')} -o volume")  # fmt: skip
    book.command(
        f"{base.replace('small', './my_backbone.py')} -o mine", label="train with a backbone of one's own"
    )
    for more in (
        "--likelihood cauchy", "--variances two", "--device tpu", "--precision fp8", "--option flop=1", "--option flip",
        "--backbone magic", "--recipe magic", "--epochs 0", "--time-limit soon", "--weights gone.safetensors",
        "--pretrained", "--option target=gone", "--batch 0", "--head-dropout 2", "--backbone resnet101 --pretrained",
    ):  # fmt: skip
        book.command(f"{base} {more} -o wrong", label=f"train wrong: {more}")
    book.command(f"train magic --root ages {TRAIN} -o wrong")
    book.command(f"train table --root gone {TRAIN} -o wrong")


def _predict(book: Book) -> None:
    for more in (
        "--split valid", "", "--scaled --draws 3", "--moments", "--seed 2 --batch 5", "--repeat 2 --draws 2",
        "--split train --draws 2 --json -", "--precision bf16 --draws 2", "--option seed=0 --root ages --draws 2",
        "--quiet --draws 1",
    ):  # fmt: skip
        name = "valid" if more == "--split valid" else "test" if not more else "x"
        book.command(f"predict a {more} --device cpu -o {name}.npz")
    for ending in ("csv", "parquet"):
        book.command(f"predict a --device cpu --draws 3 -o x.{ending}")
    for run in ("laplace", "two", "sim", "volume", "mine", "streamed", "flipped"):
        book.command(f"predict {run} --device cpu --draws 3 -o {run}.npz")
        book.command(f"predict {run} --device cpu --draws 3 -o {run}.csv --json -")
    book.command("calibrate --calibration valid.npz -o card.json")
    book.command("evaluate --calibration valid.npz --test test.npz --recalibrate none,sigma --json -")
    book.command("apply card.json test.npz -o after.npz")
    for more in (
        "",
        "--card card.json",
        "--card card.json --level 0.5,0.9",
        "--draws 3 --seed 1 --moments",
        "--scaled",
    ):
        book.command(f"predict a --images ages/scans {more} --device cpu -o new.csv")
    book.command(
        "predict a --images ages/scans/s000.png ages/scans/s001.png --device cpu -o new.npz --json -"
    )
    (book.folder / "some").mkdir()
    shutil.copy(book.folder / "ages/scans/s000.png", book.folder / "some/good.png")
    (book.folder / "some/broken.png").write_bytes(b"no image")
    book.command("predict a --images some --device cpu -o some.csv")
    book.command("predict a --images some --skip-broken --device cpu -o some.csv")
    book.command("predict volume --images volumes/scans --device cpu --draws 2 -o volumes.csv")
    for more in ("", "--moments", "--scaled --split valid --json -", "--images ages/scans",
                 "--batch 3 --precision bf16", "--root ages --option seed=0",
                 "--images some --skip-broken --level 0.5"):  # fmt: skip
        book.command(
            f"ensemble a started {more} --device cpu -o ensemble.{'csv' if 'images' in more else 'npz'}"
        )
    book.command("ensemble a --split valid --device cpu -o single.npz")
    book.command("calibrate --calibration single.npz -o single.json")
    book.command("ensemble a --images ages/scans --card single.json --device cpu -o single.csv --quiet")
    for more in (
        "--split gone", "--card gone.json", "--draws 0", "--device tpu", "--option flop=1", "--images gone",
        "--repeat 0",
        "--card single.json --images ages/scans", "--root gone",
    ):  # fmt: skip
        book.command(f"predict a {more} -o wrong.csv", label=f"predict wrong: {more}")
    book.command("predict gone -o wrong.csv")
    book.command("predict a -o wrong.txt")
    book.command("ensemble a laplace -o wrong.npz")
    book.command("ensemble a sim -o wrong.npz")
    book.command("predict b --images ages/scans --card card.json -o wrong.csv")
    book.command("figure history a/history.csv -o history.png --json -")


def _export(book: Book) -> None:
    for more in (
        "--card card.json --level 0.5,0.9 --draws 25", "--deterministic --json -", "--card single.json",
    ):  # fmt: skip
        book.command(f"export a {more} -o model.onnx", label=f"export a {more}")
    book.command("export a started -o two.onnx")
    book.command("export gone -o x.onnx")
    book.command("export a -o x.txt")
