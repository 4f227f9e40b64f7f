"""Small raw datasets in the formats of the public ones, to build from and to damage."""

import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import scipy.io

from tests.helpers import pictures

CLASSES, IMAGES = 5, 4  # classes 1-3 train, 4 validation, 5 unseen; 4 images each
CUB = {
    "splits": "xlsa17.zip",
    "splits_folder": "xlsa17/data/CUB",
    "captions": "cvpr2016_cub.tar.gz",
    "captions_folder": "cvpr2016_cub/text_c10",
    "class_folder": "{:03d}.Bird_{:d}",
    "image_file": "/some/where/images/{folder}/{name}.jpg",
    "photos": "CUB_200_2011.tgz",
    "photo": "CUB_200_2011/images/{folder}/{name}.jpg",
}
FLOWERS = {
    "splits": "cvpr18xian.zip",
    "splits_folder": "cvpr18xian/data/FLO",
    "captions": "cvpr2016_flowers.tar.gz",
    "captions_folder": "cvpr2016_flowers/text_c10",
    "class_folder": "class_{:05d}",
    "image_file": "/some/where/jpg/{name}.jpg",  # no class folder here
    "photos": "102flowers.tgz",
    "photo": "jpg/{name}.jpg",
}


class RawFiles:
    """The contents of a raw dataset; change what you like, then write it."""

    def __init__(self, kind: dict[str, str], width: int = 2048, dtype=np.float64):
        self.kind = kind
        rng = np.random.default_rng(0)
        count = CLASSES * IMAGES
        self.labels = np.repeat(np.arange(1, CLASSES + 1), IMAGES).astype(np.float64)
        # Few different values: the files stay small.
        self.features = rng.integers(0, 5, (width, count)).astype(dtype) / 4
        self.image_files, self.captions, self.photos = [], {}, {}
        # The images of Flowers are numbered in another order than the rows.
        self.numbers = np.arange(1, count + 1)
        if kind is FLOWERS:
            self.numbers = rng.permutation(self.numbers)
        for row, label in enumerate(self.labels.astype(int)):
            folder = kind["class_folder"].format(label, label)
            name = f"image_{self.numbers[row]:05d}"
            photo = pictures.encoded(pictures.picture(50, 40, seed=row), "JPEG")
            self.photos[kind["photo"].format(folder=folder, name=name)] = photo
            self.image_files.append(kind["image_file"].format(folder=folder, name=name))
            sentences = [
                f"this is sentence {k} of image {row + 1}, class {label}." for k in range(10)
            ]
            self.captions[f"{folder}/{name}.txt"] = ("\n".join(sentences) + "\n").encode()
        index = np.arange(1, count + 1).reshape(CLASSES, IMAGES)
        self.locations = {
            "trainval_loc": index[:4, 1:],
            "train_loc": index[:3],
            "val_loc": index[3:4],
            "test_seen_loc": index[:4, :1],
            "test_unseen_loc": index[4:],
        }

    def image_id(self, row: int) -> str:
        """The id of the image in row `row` (from 0)."""
        return list(self.captions)[row].removesuffix(".txt")

    def features_mat(self) -> bytes:
        return _mat(
            features=self.features,
            image_files=np.array(self.image_files, object)[:, None],
            labels=self.labels[:, None],
        )

    def splits_mat(self) -> bytes:
        columns = {name: np.reshape(rows, [-1, 1]) for name, rows in self.locations.items()}
        return _mat(att=np.zeros((3, CLASSES)), **columns)

    def captions_tar(self) -> bytes:
        folder = self.kind["captions_folder"]
        return tar_of({f"{folder}/{path}": data for path, data in self.captions.items()})

    def write_photos(self, folder: Path, unpacked: bool) -> Path:
        """Captions, splits and photographs, without any features."""
        folder.mkdir()
        (folder / self.kind["captions"]).write_bytes(self.captions_tar())
        splits = folder / self.kind["splits_folder"] / "att_splits.mat"
        splits.parent.mkdir(parents=True)
        splits.write_bytes(self.splits_mat())
        if unpacked:
            pictures.fill(folder, self.photos)
        else:
            (folder / self.kind["photos"]).write_bytes(tar_of(self.photos))
        if self.kind is FLOWERS:
            parts = np.split(self.numbers[None], [6, 11], axis=1)
            named = dict(zip(("trnid", "valid", "tstid"), parts, strict=True))
            (folder / "setid.mat").write_bytes(_mat(**named))
            labels = self.labels[np.argsort(self.numbers)][None]
            (folder / "imagelabels.mat").write_bytes(_mat(labels=labels.astype(np.uint8)))
        return folder

    def splits_zip(self) -> bytes:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"{self.kind['splits_folder']}/res101.mat", self.features_mat())
            archive.writestr(f"{self.kind['splits_folder']}/att_splits.mat", self.splits_mat())
        return buffer.getvalue()

    def write_archives(self, folder: Path) -> Path:
        """As the public archives."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / self.kind["captions"]).write_bytes(self.captions_tar())
        (folder / self.kind["splits"]).write_bytes(self.splits_zip())
        return folder

    def write_unpacked(self, folder: Path) -> Path:
        """As the folders that they unpack to."""
        splits = folder / self.kind["splits_folder"]
        splits.mkdir(parents=True)
        (splits / "res101.mat").write_bytes(self.features_mat())
        (splits / "att_splits.mat").write_bytes(self.splits_mat())
        for path, data in self.captions.items():
            target = folder / self.kind["captions_folder"] / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        return folder


def tar_of(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, data in files.items():
            info = tarfile.TarInfo(path)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def _mat(**variables) -> bytes:
    buffer = io.BytesIO()
    scipy.io.savemat(buffer, variables, do_compression=True)
    return buffer.getvalue()
