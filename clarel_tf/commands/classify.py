"""Classifies pictures: files, and folders with all pictures in them.

python classify_main.py photo.jpg folder/ --export_dir=exports/demo \\
  --new_class="snow cap: a tiny bird with a snowy crown; a small bird, white cap, brown back"
"""

import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import flags

from clarel_tf.commands import cli
from clarel_tf.commands.answer_output import Row, print_rows
from clarel_tf.commands.classify_flags import check_flags, define_flags, request_options
from clarel_tf.commands.run_models import find_backbone, run_model
from clarel_tf.errors import ClarelError, printable
from clarel_tf.experiments.run_folder import RunFolder

if TYPE_CHECKING:  # modules that import TensorFlow
    from clarel_tf.images.backbone_record import BackboneRecord
    from clarel_tf.serving.answers import Answer
    from clarel_tf.serving.client import ServingClient

_SOME_HAVE_NO_ANSWER = 2  # exit code
_WITHOUT_PROGRESS = 16  # pictures
_K = 5  # classes in an answer of a run, as in an export


def main(paths: list[str]) -> None:
    check_flags(paths)
    options = request_options()
    images = None if paths else _images()
    if flags.FLAGS.export_dir:
        from clarel_tf.serving.versions import newest_version

        with cli.about_flag("export_dir"):
            newest_version(Path(flags.FLAGS.export_dir), "prototype_classifier")
    folder = cli.finished_run(flags.FLAGS.run_dir)[0] if flags.FLAGS.run_dir else None
    cli.start_tensorflow()
    client = _client_of_run(folder, with_pictures=bool(paths)) if folder else _client()
    if images is not None:
        image_ids, features, made_by = images
        _check_backbone(made_by, folder)
        answers = _of_features(client, image_ids, features, options)
        print_rows(_rows(answers), flags.FLAGS.format)
        return
    problems: dict[str, str] = {}
    print_rows(_rows(_of_pictures(client, paths, options, problems)), flags.FLAGS.format)
    if problems:
        sys.stdout.flush()
        count = "1 picture has" if len(problems) == 1 else f"{len(problems)} pictures have"
        print(f"{count} no answer, see above", file=sys.stderr)
        sys.exit(_SOME_HAVE_NO_ANSWER)


def _client() -> "ServingClient":
    """A client for the export or the server."""
    from clarel_tf.serving.client import ServingClient, connect
    from clarel_tf.serving.local import LocalTransport, read_authorization

    values = flags.FLAGS
    if values.export_dir:
        return ServingClient(LocalTransport(values.export_dir))
    with cli.about_flag("authorization_file"):
        authorization = read_authorization(values.authorization_file)
    with cli.about_flag("server"):
        return connect(
            values.server, values.timeout, ca_file=values.ca_file, authorization=authorization
        )


def _client_of_run(folder: RunFolder, with_pictures: bool) -> "ServingClient":
    """A client that runs the signatures of an export of the run, without an export."""
    from clarel_tf.models.saving import load_model
    from clarel_tf.serving.client import ServingClient
    from clarel_tf.serving.endpoints import all_endpoints
    from clarel_tf.serving.in_process import EndpointsTransport
    from clarel_tf.serving.picture_graph import picture_graph

    path, results, final, classes = run_model(folder)
    if classes is None:
        raise ClarelError(
            f"the run in {folder.path} is of an older version and lacks a part of its classes.npz; "
            f"evaluate_main.py --run_dir={folder.path} adds it"
        )
    pictures = None
    if with_pictures:
        backbone, lacking = find_backbone(folder, flags.FLAGS.backbone, flags.FLAGS.weights)
        if backbone is None:
            raise ClarelError(f"the run takes image features, but no pictures: {lacking}")
        pictures = picture_graph(backbone)
    model, selected = load_model(path), final or results
    endpoints = all_endpoints(model, classes, {}, selected, _K, None, "", pictures)
    return ServingClient(EndpointsTransport(endpoints))


def _images() -> tuple[list[str], Any, "BackboneRecord | None"]:
    """Ids and features of the images to classify, and what made the features, if that is known."""
    if flags.FLAGS.features:
        from clarel_tf.images.feature_files import find_record
        from clarel_tf.serving.local import read_image_features

        with cli.about_flag("features"):
            found = read_image_features(flags.FLAGS.features)
            return *found, find_record(Path(flags.FLAGS.features))
    _, splits = cli.load_dataset(flags.FLAGS.dataset, flags.FLAGS.config)
    from clarel_tf.serving.local import find_images

    return *find_images(splits, flags.FLAGS.image_ids), next(iter(splits.values())).backbone


def _check_backbone(made_by: "BackboneRecord | None", folder: RunFolder | None) -> None:
    """Refuses features of another backbone than those of the run, where both are known."""
    from clarel_tf.serving.origin import origin_of
    from clarel_tf.serving.versions import newest_version

    wanted = folder.data.backbone if folder else None
    if flags.FLAGS.export_dir:
        export = Path(flags.FLAGS.export_dir)
        origin = origin_of(export, newest_version(export, "prototype_classifier"))
        wanted = origin.backbone if origin else None
    if made_by and wanted:
        given = flags.FLAGS.features or f"the dataset {flags.FLAGS.dataset}"
        where = flags.FLAGS.export_dir or flags.FLAGS.run_dir
        made_by.check_same(wanted, given, where)


def _of_features(
    client: "ServingClient", image_ids: list[str], features: Any, options: Mapping[str, Any]
) -> Iterator[tuple[list[str], "Answer"]]:
    """Ids of images, and the answer that has a row for each of them; once."""
    try:
        yield image_ids, client.classify(features, **options)
    except ClarelError as error:
        if "image_features" not in str(error):
            raise
        source = "features" if flags.FLAGS.features else "dataset"
        raise ClarelError(f"--{source}={flags.FLAGS[source].value}: {error}") from error


def _of_pictures(
    client: "ServingClient", paths: list[str], options: Mapping[str, Any], problems: dict[str, str]
) -> Iterator[tuple[list[str], "Answer"]]:
    """Paths of pictures and their answers, some at a time; adds a message for each broken one."""
    from clarel_tf.serving.file_answers import answers_of_files, find_pictures, no_picture

    files = find_pictures(paths)
    tell = _tell if len(files) > _WITHOUT_PROGRESS else None
    for found in answers_of_files(lambda one: client.classify(one, **options), files, tell):
        problems.update(found.problems)
        if len(problems) == len(files):
            raise ClarelError(no_picture(problems))
        for message in found.problems.values():
            _tell(f"broken: {message}")
        if found.files:
            yield found.files, found.answer


def _rows(answers: Iterable[tuple[list[str], "Answer"]]) -> Iterator[list[Row]]:
    """The rows of each answer; warnings of the client go to standard error, each once."""
    from clarel_tf.serving.local import answer_rows
    from clarel_tf.serving.options import warnings_of

    said: set[str] = set()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        for image_ids, answer in answers:
            rows, about = answer_rows(image_ids, answer), warnings_of(answer)
            if flags.FLAGS.format == "json":
                said |= set(about.values())
                for row in rows:
                    if text := about.get(row["class"]):
                        row["warning"] = text
            yield rows
            for text in [str(warning.message) for warning in caught]:
                if text not in said:
                    _tell(f"warning: {text}")
                said.add(text)
            caught.clear()


def _tell(line: str) -> None:
    print(printable(line), file=sys.stderr, flush=True)


def run() -> None:
    """The console command."""
    define_flags()
    about = f"{__doc__.splitlines()[0]} Or images of a dataset, or their features."
    cli.run(main, about, takes_paths=True)


if __name__ == "__main__":
    run()
