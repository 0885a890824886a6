"""open_dataset: names, folders, and what is said when they are wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from residua import data as datasets
from residua.data import open_dataset
from residua.data.parsing import EMBEDDED, ON_DISK, parse_forget
from residua.data.task import Dataset
from residua.errors import InputError


def test_the_embedded_data_need_no_folder() -> None:
    assert open_dataset("fashion-sample").name == "fashion-sample"
    assert open_dataset("fashion-sample", size=32).shape == (1, 32, 32)


@pytest.mark.parametrize("name", ON_DISK)
def test_every_name_reaches_its_loader(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ON_DISK[name] is getattr(datasets, name.replace("-", "_"))
    calls = []

    def loader(dir: Path, **options: int) -> Dataset:
        calls.append((dir, options))
        return open_dataset("fashion-sample")

    monkeypatch.setitem(ON_DISK, name, loader)
    open_dataset(f"{name}:{tmp_path}")
    open_dataset(f"{name}:{tmp_path}", size=64)
    assert calls == [(tmp_path, {}), (tmp_path, {"size": 64})]


def test_a_part_is_the_same_share_of_every_class_and_always_the_same_images() -> None:
    whole, part, again = (open_dataset(f"fashion-sample{words}") for words in ("", "?part=0.2", "?part=0.20"))
    assert part.train.counts() == [round(0.2 * n) for n in whole.train.counts()]
    assert part.train.digest() == again.train.digest()
    assert part.test.digest() == whole.test.digest()
    assert set(part.train.index.tolist()) < set(whole.train.index.tolist())
    assert open_dataset("fashion-sample?part=1").train.digest() == whole.train.digest()
    assert open_dataset("fashion-sample?part=0.2&size=32&name=fewer").name == "fewer"


@pytest.mark.parametrize("words", ["0", "1.5", "-1", "nan", "a fifth", "0.00001"])
def test_a_part_that_cannot_be_is_refused(words: str) -> None:
    with pytest.raises(InputError, match=r"part is|none or all of them; choose another part"):
        open_dataset(f"fashion-sample?part={words}")


def test_a_real_folder(tmp_path: Path) -> None:
    for half in ("train", "test"):
        for name in "ab":
            (tmp_path / half / name).mkdir(parents=True)
            Image.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / half / name / "0.png")
    data = open_dataset(f"image-folder:{tmp_path}")
    assert (data.shape, data.class_names) == ((1, 4, 4), ("a", "b"))
    assert open_dataset(f"image-folder:{tmp_path}", size=16).shape == (1, 16, 16)


def test_only_the_first_colon_separates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "c:data").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="c:data has no train-images"):
        open_dataset("mnist:c:data")
    with pytest.raises(InputError, match=r"C:\\data is not there"):
        open_dataset(r"mnist:C:\data")


def test_a_tilde_is_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(InputError, match=f"{tmp_path} has no train-images"):
        open_dataset("mnist:~")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("cifar-10:/tmp", "no data set 'cifar-10', only fashion-sample, .*; did you mean cifar10"),
        ("CIFAR100:/tmp", "did you mean cifar100"),
        ("imagefolder:/tmp", "did you mean image-folder"),
        ("qqqq", "no data set 'qqqq', only .*; choose one"),
        ("", "no data set ''"),
        ("cifar10", "cifar10 names no folder, expected cifar10:DIR"),
        ("cifar10:", "cifar10: names no folder, expected cifar10:DIR"),
        ("fashion-sample:/tmp", "fashion-sample:/tmp names a folder .* write fashion-sample alone"),
        ("parquet:/no/such/folder", "/no/such/folder is not there, expected a folder"),
    ],
)
def test_bad_names_are_refused(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_dataset(spec)


def test_bad_size_is_refused() -> None:
    with pytest.raises(InputError, match="size is -1"):
        open_dataset("fashion-sample", size=-1)


def test_the_table_of_contents() -> None:
    assert set(EMBEDDED) | set(ON_DISK) == {
        "fashion-sample", "fashion-mnist", "mnist", "cifar10", "cifar100", "parquet", "image-folder",
        "hf-datasets", "npz", "csv",
    }  # fmt: skip
    assert all(callable(getattr(datasets, name)) for name in datasets.__all__)


def test_a_class_that_is_misspelt_is_answered_with_the_names():
    sample = open_dataset("fashion-sample")
    with pytest.raises(InputError, match=r"no class 'shrit'; did you mean shirt\? give a number or one of .*trouser"):
        parse_forget(sample, "class:shrit")
    assert parse_forget(sample, "class:shirt").forgotten == parse_forget(sample, "class:6").forgotten


def test_a_limit_takes_as_much_of_each_class_of_training_and_test_data():
    some = open_dataset("fashion-sample?limit=500")
    assert (len(some.train), len(some.test)) == (500, 500)
    assert set(torch.bincount(some.train.labels).tolist()) == {50}
    assert torch.equal(some.train.index, open_dataset("fashion-sample?limit=500").train.index)
    assert len(open_dataset("fashion-sample?limit=1000000").train) == len(open_dataset("fashion-sample").train)
    with pytest.raises(InputError, match="limit is '0'"):
        open_dataset("fashion-sample?limit=0")
