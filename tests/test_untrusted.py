"""What the project reads may come from anybody: nothing in it is executed, written or unbounded."""

import ast
import gzip
import io
import os
import pickle
import tarfile
import zipfile
import zlib
from pathlib import Path

import keras
import numpy as np
import pytest

from clarel_tf.errors import ClarelError
from clarel_tf.models.saving import load_model
from clarel_tf.storage.archives import iterate_texts, read_zip_member
from clarel_tf.storage.array_files import read_npz
from clarel_tf.storage.word_vectors import load_word_vectors
from tests.helpers.programs import ROOT

# Calls that execute, unpickle or unpack what they are given, by the last parts of their names.
FORBIDDEN = {
    *("eval", "exec", "compile", "__import__", "execfile", "runpy.run_path"),
    *("pickle.load", "pickle.loads", "pickle.Unpickler", "cPickle.load", "marshal.loads"),
    *("dill.load", "dill.loads", "joblib.load", "cloudpickle.load", "cloudpickle.loads"),
    *("shelve.open", "yaml.load", "yaml.unsafe_load", "torch.load", "pd.read_pickle"),
    *("os.system", "os.popen", "extractall", "extract", "shutil.unpack_archive"),
    *("enable_unsafe_deserialization", "tf.py_function", "tf.numpy_function"),
}


def product_files() -> list[Path]:
    folders = ("clarel_tf", "datasets", "benchmarks")
    found = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return [*found, *ROOT.glob("*_main.py")]


def dangers_in(source: str) -> list[str]:
    """Dangerous calls and arguments, each with its line."""
    dangers = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        parts = name.split(".")
        # `model.compile` is Keras's; only the builtin compiles code.
        is_builtin = len(parts) == 1 or parts[-1] not in ("compile", "eval", "exec")
        if is_builtin and ({parts[-1], ".".join(parts[-2:])} & FORBIDDEN):
            dangers.append(f"line {node.lineno}: {name}")
        for keyword in node.keywords:
            value = ast.unparse(keyword.value)
            is_on = {"allow_pickle": "True", "shell": "True", "safe_mode": "False"}
            if is_on.get(keyword.arg) == value:
                dangers.append(f"line {node.lineno}: {name}({keyword.arg}={value})")
        is_load = name in ("np.load", "numpy.load")
        if is_load and not any(keyword.arg == "allow_pickle" for keyword in node.keywords):
            dangers.append(f"line {node.lineno}: {name} without allow_pickle=False")
    return dangers


def test_no_dangerous_call_in_the_product():
    files = product_files()
    assert len(files) > 70
    assert {path.name: d for path in files if (d := dangers_in(path.read_text()))} == {}


@pytest.mark.parametrize(
    "code",
    [
        *("eval(text)", "pickle.loads(data)", "archive.extractall(folder)", "np.load(path)"),
        *("np.load(path, allow_pickle=True)", "run(command, shell=True)", "os.system(text)"),
        *("keras.saving.load_model(p, safe_mode=False)", "exec(code, {})", "torch.load(p)"),
    ],
)
def test_the_search_finds_dangerous_calls(code):
    assert len(dangers_in(code)) == 1
    assert dangers_in("model.compile('adam'); np.load(p, allow_pickle=False)") == []


class Bomb:
    """Leaves a file behind if it is ever unpickled."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_pickled_objects_are_not_unpickled(tmp_path):
    trap = tmp_path / "trap"
    np.savez(tmp_path / "features.npz", features=np.array([Bomb(trap)], object))
    with pytest.raises(ClarelError, match="Python objects"):
        read_npz(tmp_path / "features.npz", ("features",))
    (tmp_path / "plain.npz").write_bytes(pickle.dumps(Bomb(trap)))
    with pytest.raises(ClarelError):
        read_npz(tmp_path / "plain.npz", ("features",))
    assert not trap.exists()
    pickle.loads(pickle.dumps(Bomb(trap)))  # noqa: S301 - the negative control
    assert trap.exists()


def test_code_in_a_keras_file_is_not_run(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Lambda(lambda x: x + 1)])
    path = tmp_path / "evil.keras"
    model.save(path)
    with pytest.raises(ClarelError, match=r"evil\.keras .*(unsafe|[Ll]ambda)"):
        load_model(path)
    # The negative control: it is the safe mode that refuses.
    assert keras.saving.load_model(path, safe_mode=False)(np.zeros((1, 2)))[0, 0] == 1


def zeros_gzip(megabytes: int, before: bytes = b"") -> bytes:
    """A small file that expands to many zeros."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [squeeze.compress(before)]
    parts += [squeeze.compress(bytes(1 << 20)) for _ in range(megabytes)]
    return b"".join([*parts, squeeze.flush()])


def huge_member(kind: bytes, size: int) -> bytes:
    """The header of a tar member that claims `size` bytes."""
    info = tarfile.TarInfo("texts/a.txt")
    info.size, info.type = size, kind
    return info.tobuf()


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_tar_archive_cannot_fill_the_memory(tmp_path, kind):
    path = tmp_path / "captions.tar.gz"
    path.write_bytes(zeros_gzip(16, huge_member(kind, 1 << 33)))
    assert path.stat().st_size < 100_000
    with pytest.raises(ClarelError, match=r"captions\.tar\.gz"):
        list(iterate_texts(path, "texts"))


@pytest.mark.parametrize("name", ["../a.txt", "/a.txt", "texts/../../a.txt", "..\\a.txt"])
def test_names_that_climb_out_are_refused(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(name, "x")
        archive.writestr("good", "x")
    with pytest.raises(ClarelError, match="outside the archive"):
        read_zip_member(tmp_path / "a.zip", "good")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        info = tarfile.TarInfo(name)
        archive.addfile(info, io.BytesIO())
    with pytest.raises(ClarelError, match="outside the archive"):
        list(iterate_texts(tmp_path / "a.tar.gz", "texts"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar.gz", "a.zip"]


def test_a_vector_file_cannot_fill_the_memory(tmp_path):
    path = tmp_path / "vectors.gz"
    path.write_bytes(zeros_gzip(64, b"the 1 2 3\nbird "))
    with pytest.raises(ClarelError, match="has no end"):
        load_word_vectors(path, ["bird"])
    path.write_bytes(gzip.compress(b"3 99999999999\nthe " + bytes(100)))
    with pytest.raises(ClarelError, match="99999999999 numbers"):
        load_word_vectors(path, ["bird"])
