"""Rate of feature extraction, compared with the bare network and with PyTorch.

[CLAREL_DATA=<folder with cub/>] python benchmarks/extract_features.py [--images=FOLDER] [--count=N]

Files to features, as `extract_main.py` makes them; the network alone on ready tensors, in the same
batches and threads; and both in PyTorch, with Pillow for the pictures. All have the size and the
mirroring of `extract_main.py`. They run in turn, so that the drift of a shared machine affects all
equally; ratios are medians over the rounds, of wall-clock times and of the times of all cores.
Other jobs on the machine change the latter little.
"""

import concurrent.futures
import importlib.util
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import harness
import numpy as np
import tensorflow as tf

from clarel_tf.images.cores import keep_batches_apart
from clarel_tf.images.extractor import BATCH, Extractor
from clarel_tf.images.loading import load_backbone
from clarel_tf.images.picture_files import list_pictures
from tests.helpers import pictures

CORES = len(os.sched_getaffinity(0))
OURS, BARE = "clarel_tf, files to features", "clarel_tf, network on ready tensors"


def with_cpu_time(work: Callable[[], None], seconds: list[float]) -> Callable[[], None]:
    """`work`, which also notes the time of all cores."""

    def run() -> None:
        started = time.process_time()
        work()
        seconds.append(time.process_time() - started)

    return run


def in_threads(work: Callable[[int], object], count: int) -> None:
    """Calls `work` with the beginning of each batch, on all cores."""
    with concurrent.futures.ThreadPoolExecutor(CORES) as threads:
        list(threads.map(work, range(0, count, BATCH)))


def ours(extractor: Extractor, folder: Path, names: list[str]) -> Callable[[], None]:
    def run() -> None:
        found = sum(len(batch[0]) for batch in extractor.batches(folder, names))
        assert found == len(names)

    return run


def decoding(extractor: Extractor, paths: list[Path]) -> Callable[[], None]:
    return lambda: in_threads(
        lambda at: [extractor.pixels(path) for path in paths[at : at + BATCH]], len(paths)
    )


def bare(extractor: Extractor, pixels: np.ndarray) -> Callable[[], None]:
    batches = [tf.constant(pixels[at : at + BATCH]) for at in range(0, len(pixels), BATCH)]
    return lambda: in_threads(lambda at: extractor.embed(batches[at // BATCH]).numpy(), len(pixels))


def in_pytorch(
    paths: list[Path], pixels: np.ndarray, expected: np.ndarray, mirrored: bool
) -> dict[str, Callable[[], None]]:
    import torch
    from PIL import Image
    from torch_lite2 import TorchLite2

    size = pixels.shape[1]
    network = TorchLite2(mirrored).to(memory_format=torch.channels_last)

    def features(batch: np.ndarray, threads: int = 1) -> np.ndarray:
        torch.set_num_threads(threads)  # of this thread
        tensor = torch.from_numpy(batch).permute(0, 3, 1, 2)
        with torch.inference_mode():
            return network(tensor.float()).numpy()

    def read(path: Path) -> np.ndarray:
        image = Image.open(path).convert("RGB")
        return np.asarray(image.resize((size, size), Image.Resampling.BICUBIC))

    np.testing.assert_allclose(features(pixels[:BATCH]), expected, atol=1e-4)

    def whole(at: int) -> np.ndarray:
        return features(np.stack([read(path) for path in paths[at : at + BATCH]]))

    def one_after_the_other() -> None:
        for at in range(0, len(pixels), BATCH):
            features(pixels[at : at + BATCH], CORES)

    return {
        "PyTorch, files to features": lambda: in_threads(whole, len(paths)),
        "PyTorch, network on ready tensors": lambda: in_threads(
            lambda at: features(pixels[at : at + BATCH]), len(pixels)
        ),
        "PyTorch, batch after batch": one_after_the_other,
    }


def main() -> None:
    parser = harness.make_parser(__doc__.splitlines()[0])
    parser.add_argument("--images", help="folder of photographs")
    parser.add_argument("--count", type=int, default=192, help="photographs (default 192)")
    parser.add_argument("--input_size", type=int, help="as for extract_main.py")
    parser.add_argument("--nomirrored", action="store_true", help="as for extract_main.py")
    parser.add_argument("--without_torch", action="store_true", help="leave PyTorch out")
    arguments = parser.parse_args()
    keep_batches_apart()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(arguments.images or made)
        if not arguments.images and os.environ.get("CLAREL_DATA"):
            folder = Path(os.environ["CLAREL_DATA"], "cub", "photos_sample")
        elif not arguments.images:
            for n in range(arguments.count):
                jpeg = pictures.encoded(pictures.picture(500, 375, seed=n), "JPEG", quality=90)
                pictures.fill(folder, {f"{n}.jpg": jpeg})
        names = list_pictures(folder)
        names = names[:: max(1, len(names) // arguments.count)][: arguments.count]
        paths = [folder / name for name in names]
        mirrored = not arguments.nomirrored
        backbone = load_backbone(input_size=arguments.input_size, mirrored=mirrored)
        extractor = Extractor(backbone)
        pixels = np.stack([extractor.pixels(path) for path in paths])
        work = {
            OURS: ours(extractor, folder, names),
            BARE: bare(extractor, pixels),
            "clarel_tf, reading and decoding": decoding(extractor, paths),
        }
        if importlib.util.find_spec("torch") and not arguments.without_torch:
            expected = extractor.embed(tf.constant(pixels[:BATCH])).numpy()
            work.update(in_pytorch(paths, pixels, expected, mirrored))
        for run in work.values():
            run()
        cpu: dict[str, list[float]] = {name: [] for name in work}
        work = {name: with_cpu_time(run, cpu[name]) for name, run in work.items()}
        seconds = harness.alternate(work, arguments.repeats, "extraction", pause=1.0)
    rows = {}
    for name, times in seconds.items():
        rows[name] = harness.summary(times)
        rows[name]["pictures_per_s"] = len(names) / statistics.median(times)
        rows[name]["cpu_ms_each"] = statistics.median(cpu[name]) / len(names) * 1000
        rows[name]["rate_of_bare"] = harness.median_ratio(seconds[BARE], times)
        rows[name]["by_cpu_time"] = harness.median_ratio(cpu[BARE], cpu[name])
    title = (
        f"{len(names)} photographs to features of {backbone.record}, {CORES} cores, "
        f"batches of {BATCH}"
    )
    harness.report(title, rows, arguments.json)


if __name__ == "__main__":
    main()
