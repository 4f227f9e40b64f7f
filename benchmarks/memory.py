"""Peak memory of a training step, packed and plain, each in its own process.

[CLAREL_DATA=<folder with cub/>] python benchmarks/memory.py [--json=PATH]

The memory of a step is the peak of the process during training minus the resident memory before the
first step (libraries, weights, batches). For 256 images with 10 captions, the peak of the whole
process is compared with 6 GB.
"""

import json
import os
import subprocess
import sys

import harness

STEPS = 3
LIMIT_GB = 6.0
CASES = {
    "clarel_tf, 32 images": ("ours", 32),
    "plain Keras, 32 images": ("plain", 32),
    "plain Keras, jit_compile, 32 images": ("jit", 32),
    "clarel_tf, 256 images": ("ours", 256),
    "plain Keras, 256 images": ("plain", 256),
}


def resident(field: str) -> float:
    """VmRSS (now) or VmHWM (peak) of this process, in MB."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith(field))


def reset_peak() -> bool:
    """Resets the peak to the present value; not every kernel supports it."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as handle:
            handle.write("5")
    except OSError:
        return False
    return True


def measure(kind: str, instances: int) -> None:
    """The measurement of one case, in its own process."""
    import paper_step
    from captions import load_corpus
    from plain_clarel import PlainClarel

    corpus = load_corpus(STEPS * instances * paper_step.CAPTIONS)
    batches = paper_step.make_batches(corpus, STEPS, instances)
    model = paper_step.make_model(corpus.words)
    if kind != "ours":
        model = PlainClarel(model)
    step = paper_step.keras_step(model, batches, jit_compile=kind == "jit")
    can_reset = reset_peak()
    before, peak_before = resident("VmRSS"), resident("VmHWM")
    for _ in range(STEPS):
        step()
    peak = resident("VmHWM")
    if not can_reset and peak <= peak_before:
        sys.exit("error: a peak before the first step hides that of the steps")
    print(json.dumps({"before_mb": before, "peak_mb": peak, "of_steps_mb": peak - before}))


def main() -> None:
    parser = harness.make_parser(__doc__.splitlines()[0])
    parser.set_defaults(repeats=1)
    parser.add_argument("--measure", nargs=2, help="for the processes that this one starts")
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure[0], int(arguments.measure[1]))
        return
    rows: dict[str, dict[str, float]] = {}
    for name, case in CASES.items():
        for _ in range(arguments.repeats):
            harness.progress(f"{name}: {STEPS} steps")
            done = subprocess.run(
                [sys.executable, __file__, "--measure", *map(str, case)],
                check=True,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
            )
            found = json.loads(done.stdout.strip().splitlines()[-1])
            if name not in rows or found["of_steps_mb"] > rows[name]["of_steps_mb"]:
                rows[name] = found
    for size in ("32", "256"):
        ours, plain = (rows[f"{name}, {size} images"] for name in ("clarel_tf", "plain Keras"))
        plain["times_ours"] = plain["of_steps_mb"] / ours["of_steps_mb"]
    total = rows["clarel_tf, 256 images"]["peak_mb"] / 1024
    verdict = "below" if total < LIMIT_GB else "NOT below"
    title = (
        f"Peak memory of {STEPS} training steps, 10 captions an image\n"
        f"256 images: the whole process takes {total:.2f} GB, {verdict} {LIMIT_GB:.0f} GB"
    )
    harness.report(title, rows, arguments.json)


if __name__ == "__main__":
    main()
