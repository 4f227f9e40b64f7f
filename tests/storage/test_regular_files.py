"""Files that a user names must be regular files: a pipe would make a program wait for ever."""

import os
import re
import signal
import socket
from pathlib import Path

import numpy as np
import pytest
import tensorflow_datasets as tfds

from clarel_tf.data.pairs.features import read_features
from clarel_tf.data.pairs.splits import read_shares
from clarel_tf.data.pairs.table import read_rows
from clarel_tf.errors import ClarelError
from clarel_tf.models.saving import load_model
from clarel_tf.models.vocabulary import load_vocabulary
from clarel_tf.serving.client import connect
from clarel_tf.serving.local import read_authorization
from clarel_tf.storage import files
from clarel_tf.storage.archives import iterate_texts, read_zip_member
from clarel_tf.storage.array_files import read_mat, read_npz
from clarel_tf.storage.word_vectors import load_word_vectors
from tests.helpers.programs import call_program

READERS = {
    "word vectors": lambda path: load_word_vectors(path, ["bird"]),
    "fingerprint": files.file_fingerprint,
    "sha256": files.sha256,
    "json": files.read_json,
    "npz": lambda path: read_npz(path, ("features",)),
    "mat": lambda path: read_mat(path, ("features",)),
    "zip": lambda path: read_zip_member(path, "member"),
    "table.csv": lambda path: list(read_rows(path)),
    "splits.json": read_shares,
    "vocabulary": load_vocabulary,
    "keras": load_model,
}


@pytest.fixture(autouse=True)
def alarm():
    """Waiting for ever ends the test."""
    signal.alarm(60)
    yield
    signal.alarm(0)


@pytest.mark.parametrize("name", [*READERS, "captions"])
def test_pipes_devices_sockets_and_folders_are_refused(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)  # the name of a socket has to be short
    os.mkfifo("pipe")
    os.mkdir("folder")
    os.symlink("/dev/zero", "device")
    read = READERS.get(name, lambda path: list(iterate_texts(path, "texts")))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        for kind, words in (
            *(("pipe", "a named pipe"), ("device", "a device"), ("socket", "a socket")),
            ("folder", "a folder"),
        ):
            if (kind, name) == ("folder", "captions"):
                continue  # where it is unpacked
            message = f"{tmp_path / kind} is {words}, not a file; give the name of a regular file"
            with pytest.raises(ClarelError, match=re.escape(message)):
                read(tmp_path / kind)


def test_a_pipe_among_unpacked_captions(tmp_path):
    (tmp_path / "texts" / "c").mkdir(parents=True)
    os.mkfifo(tmp_path / "texts" / "c" / "a.txt")
    with pytest.raises(ClarelError, match="a named pipe"):
        list(iterate_texts(tmp_path, "texts"))


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_impossible_names(name):
    for read in (files.read_json, files.file_fingerprint, READERS["word vectors"]):
        with pytest.raises(ClarelError, match="cannot be the name of a file"):
            read(name)


def test_paths_of_tfds_are_read(tmp_path):
    np.savez(tmp_path / "features.npz", image_ids=np.array(["a"]), features=np.ones((1, 2)))
    (tmp_path / "table.csv").write_text("image_id,class,captions\na,wren,x\n")
    folder = tfds.core.Path(tmp_path)
    assert read_features(folder / "features.npz")[0] == ["a"]
    assert [row.image_id for row in read_rows(folder / "table.csv")] == ["a"]


def test_remote_paths_are_left_to_tfds():
    opened = []

    class Remote:
        def __fspath__(self):
            return "gs://bucket/table.csv"

        def open(self, mode):
            opened.append(mode)

    files.open_regular(Remote())
    assert opened == ["rb"]


def test_word_vectors_that_are_a_pipe_end_the_program(tmp_path, demo_data_dir):
    os.mkfifo(tmp_path / "vectors")
    done = call_program(
        "train_main.py",
        *("--config=small", f"--data_dir={demo_data_dir}", f"--run_dir={tmp_path / 'run'}"),
        f"--word_vectors={tmp_path / 'vectors'}",
    )
    assert done.returncode == 1
    assert re.search(r"error: .*vectors is a named pipe, not a file; [^\n]*\n$", done.stderr)
    assert "Traceback" not in done.stderr


def test_secrets_and_certificates_are_read_from_regular_files_alone(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ClarelError, match="not a file"):
            read_authorization(str(path))
        with pytest.raises(ClarelError, match="not a file"):
            connect("https://127.0.0.1:1", ca_file=str(path))
        with pytest.raises(ClarelError, match="not a file"):
            connect("grpcs://127.0.0.1:1", ca_file=str(path))
