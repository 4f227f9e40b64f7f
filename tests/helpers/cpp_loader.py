"""Runs SavedModels with the C++ loader alone: no Python of TensorFlow or Keras is imported.

It is the loader that the model server uses, called through the C API of the library in the wheel.

python cpp_loader.py LIBRARY_FOLDER < REQUESTS

A request is a line of JSON. It names the SavedModel and, for each call, the files (.npy) or lists
(strings) to feed and the tensors to fetch; its answers are printed as a line of JSON, numbers as
nested lists. The last few models stay loaded, so that many requests cost one load.
"""

import ctypes
import json
import sys
import time
from pathlib import Path

import numpy as np

TF_FLOAT, TF_INT32, TF_STRING, TF_INT64, TF_BOOL = 1, 3, 7, 9, 10
NUMPY_OF = {TF_FLOAT: np.float32, TF_INT32: np.int32, TF_INT64: np.int64, TF_BOOL: np.bool_}
STRING_BYTES = 24  # sizeof(TF_TString)
MODELS_IN_MEMORY = 2
Pointer = ctypes.c_void_p


def _peak_mb() -> float:
    # Not `ru_maxrss`: that still counts the program which this process was forked from.
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


class Output(ctypes.Structure):
    """TF_Output: one output of an operation."""

    _fields_ = [("operation", Pointer), ("index", ctypes.c_int)]


class Library:
    """The few functions that are needed, with their types."""

    def __init__(self, folder: Path):
        framework = ctypes.CDLL(str(folder / "libtensorflow_framework.so.2"), ctypes.RTLD_GLOBAL)
        core = ctypes.CDLL(str(folder / "libtensorflow_cc.so.2"))
        for name, result in {
            "TF_NewStatus": Pointer,
            "TF_Message": ctypes.c_char_p,
            "TF_GetCode": ctypes.c_int,
            "TF_AllocateTensor": Pointer,
            "TF_TensorData": Pointer,
            "TF_TensorType": ctypes.c_int,
            "TF_NumDims": ctypes.c_int,
            "TF_Dim": ctypes.c_int64,
            "TF_NewGraph": Pointer,
            "TF_NewSessionOptions": Pointer,
            "TF_LoadSessionFromSavedModel": Pointer,
            "TF_GraphOperationByName": Pointer,
            "TF_SessionRun": None,
            "TF_CloseSession": None,
            "TF_DeleteSession": None,
            "TF_DeleteGraph": None,
            "TF_DeleteTensor": None,
            "TF_StringInit": None,
            "TF_StringCopy": None,
            "TF_StringGetDataPointer": Pointer,
            "TF_StringGetSize": ctypes.c_size_t,
        }.items():
            try:
                function = getattr(core, name)
            except AttributeError:
                function = getattr(framework, name)
            function.restype = result
            setattr(self, name, function)


class Session:
    """A SavedModel, loaded as the model server loads it."""

    def __init__(self, library: Library, path: str):
        self.library, self.status = library, Pointer(library.TF_NewStatus())
        self.graph = Pointer(library.TF_NewGraph())
        options = Pointer(library.TF_NewSessionOptions())
        tags = (ctypes.c_char_p * 1)(b"serve")
        self.session = Pointer(
            library.TF_LoadSessionFromSavedModel(
                options, None, path.encode(), tags, 1, self.graph, None, self.status
            )
        )
        self._check()

    def close(self) -> None:
        self.library.TF_CloseSession(self.session, self.status)
        self.library.TF_DeleteSession(self.session, self.status)
        self.library.TF_DeleteGraph(self.graph)

    def _check(self) -> None:
        if self.library.TF_GetCode(self.status):
            raise RuntimeError(self.library.TF_Message(self.status).decode())

    def _output(self, tensor_name: str) -> Output:
        name, _, index = tensor_name.partition(":")
        operation = self.library.TF_GraphOperationByName(self.graph, name.encode())
        if not operation:
            raise RuntimeError(f"no operation {name}")
        return Output(operation, int(index))

    def _tensor(self, value) -> Pointer:
        if isinstance(value, np.ndarray):
            kind = next(k for k, dtype in NUMPY_OF.items() if value.dtype == dtype)
            tensor = self._allocate(kind, value.shape, value.nbytes)
            ctypes.memmove(self.library.TF_TensorData(tensor), value.tobytes(), value.nbytes)
            return tensor
        tensor = self._allocate(TF_STRING, (len(value),), STRING_BYTES * len(value))
        start = self.library.TF_TensorData(tensor) or 0
        for i, text in enumerate(value):
            data = bytes.fromhex(text)
            place = Pointer(start + STRING_BYTES * i)
            self.library.TF_StringInit(place)
            self.library.TF_StringCopy(place, data, ctypes.c_size_t(len(data)))
        return tensor

    def _allocate(self, kind: int, shape: tuple[int, ...], size: int) -> Pointer:
        dims = (ctypes.c_int64 * len(shape))(*shape)
        return Pointer(
            self.library.TF_AllocateTensor(kind, dims, len(shape), ctypes.c_size_t(size))
        )

    def _value(self, tensor: int):
        library, tensor = self.library, Pointer(tensor)
        shape = [library.TF_Dim(tensor, i) for i in range(library.TF_NumDims(tensor))]
        start, count = library.TF_TensorData(tensor) or 0, int(np.prod(shape))
        kind = library.TF_TensorType(tensor)
        if kind == TF_STRING:
            texts = []
            for i in range(count):
                place = Pointer(start + STRING_BYTES * i)
                size = library.TF_StringGetSize(place)
                texts.append(
                    ctypes.string_at(library.TF_StringGetDataPointer(place), size).decode()
                )
            return np.array(texts, object).reshape(shape).tolist()
        dtype = np.dtype(NUMPY_OF[kind])
        data = ctypes.string_at(start, count * dtype.itemsize) if count else b""
        return np.frombuffer(data, dtype).reshape(shape).tolist()

    def run(self, feeds: dict, fetches: dict[str, str]) -> dict:
        """Feeds tensors by name and returns the fetched ones."""
        results = self._prepared(feeds, fetches)()
        found = {name: self._value(results[i]) for i, name in enumerate(fetches)}
        for result in results:
            self.library.TF_DeleteTensor(Pointer(result))
        return found

    def timed(self, feeds: dict, fetches: dict[str, str], repeats: int) -> dict:
        """Seconds of each of many runs, and the peak memory of the process in megabytes."""
        call, seconds = self._prepared(feeds, fetches), []
        for _ in range(repeats):
            started = time.perf_counter()
            results = call()
            seconds.append(time.perf_counter() - started)
            for result in results:
                self.library.TF_DeleteTensor(Pointer(result))
        return {"seconds": seconds, "peak_mb": _peak_mb()}

    def _prepared(self, feeds: dict, fetches: dict[str, str]):
        """A function that runs the session on tensors made once."""
        inputs = (Output * len(feeds))(*(self._output(name) for name in feeds))
        values = (Pointer * len(feeds))(*(self._tensor(value) for value in feeds.values()))
        outputs = (Output * len(fetches))(*(self._output(name) for name in fetches.values()))

        def call():
            results = (Pointer * len(fetches))()
            self.library.TF_SessionRun(
                *(self.session, None, inputs, values, len(feeds), outputs, results, len(fetches)),
                *(None, 0, None, self.status),
            )
            self._check()
            return results

        return call


def _answers(session: Session, request: dict) -> list[dict]:
    answers = []
    for call in request["calls"]:
        feeds = {
            name: np.load(value) if isinstance(value, str) else value
            for name, value in call["feeds"].items()
        }
        try:
            if repeats := request.get("repeats"):
                answers.append(session.timed(feeds, call["fetches"], repeats))
            else:
                answers.append(session.run(feeds, call["fetches"]))
        except RuntimeError as error:
            answers.append({"error": str(error)})
    return answers


def main() -> None:
    library, sessions = Library(Path(sys.argv[1])), {}
    for line in sys.stdin:
        request = json.loads(line)
        model = Path(request["path"], "saved_model.pb")
        key = str(model), model.stat().st_ino, model.stat().st_mtime_ns
        session = sessions.pop(key, None) or Session(library, request["path"])
        while len(sessions) >= MODELS_IN_MEMORY:
            sessions.pop(next(iter(sessions))).close()
        sessions[key] = session
        print(json.dumps(_answers(session, request)), flush=True)
        assert not {"tensorflow", "keras"} & set(sys.modules)


if __name__ == "__main__":
    main()
