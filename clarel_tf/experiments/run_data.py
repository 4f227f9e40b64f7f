"""`RunData`, the record `data.json` of the data of a run, which continues with no other data."""

from pathlib import Path
from typing import Any

from clarel_tf.errors import ClarelError
from clarel_tf.images.backbone_record import BackboneRecord
from clarel_tf.storage import checksums
from clarel_tf.storage.records import from_json

# What can be done about a file that nothing else in the folder of a run can replace.
BEGIN_ANEW = "restore a copy, or start again with --restart, which moves this run aside"

_DATA_DIR = "data_dir"  # a key of data.json besides the fingerprints
BACKBONE = "backbone"  # the key of the backbone's record, which datasets of an older version lack


class RunData:
    """Fingerprints of the data of one run, and where it was read from."""

    def __init__(self, run: Path):
        self._run, self._path = run, run / "data.json"

    def begin(self, fingerprints: dict[str, Any], data_dir: str = "") -> None:
        """Notes the data of a new run; raises ClarelError if the run began with other data.

        Args:
          fingerprints: of the splits by name, and of whatever else the result depends on.
          data_dir: where the dataset is, if it was read from a folder.
        """
        if self._path.exists():
            before, now = self.fingerprints().get("towers"), fingerprints.get("towers")
            if before != now:
                raise ClarelError(
                    f"the run in {self._run} began with the towers {before}, now they are {now}; "
                    "name a new run_dir, or restart it"
                )
            self.check(fingerprints)
            if data_dir and data_dir != self.data_dir:  # the same data at another place
                checksums.write_json(self._path, self.fingerprints() | {_DATA_DIR: data_dir})
        else:
            place = {_DATA_DIR: data_dir} if data_dir else {}
            checksums.write_json(self._path, fingerprints | place)

    def check(self, fingerprints: dict[str, Any]) -> None:
        """Raises ClarelError if these data are not those that the run began with."""
        before = self.fingerprints()
        self._check_backbone(fingerprints)
        changed = [
            name
            for name, value in fingerprints.items()
            if before.get(name) != value and name != BACKBONE
        ]
        if changed:
            what = {"word_vectors": "the word-vector file", "members": "the set of its models"}
            raise ClarelError(
                f"{what.get(changed[0], f'split {changed[0]!r} of the dataset')} is not what the "
                f"run in {self._run} began with; give the --data_dir or --word_vectors of that "
                "time, or name a new --run_dir for a run with what you have now. A dataset that "
                "was built again from other files can be built of the old files in another "
                "--data_dir"
            )

    def _check_backbone(self, fingerprints: dict[str, Any]) -> None:
        """Refuses features of another backbone, where both are known."""
        if self.backbone is not None and BACKBONE in fingerprints:
            its = from_json(BackboneRecord, fingerprints[BACKBONE], "the dataset")
            self.backbone.check_same(its, f"the run in {self._run}", "the dataset")

    @property
    def backbone(self) -> BackboneRecord | None:
        """The network that made the features which the run began with, if that is known."""
        found = self.fingerprints().get(BACKBONE) if self.has_begun else None
        return None if found is None else from_json(BackboneRecord, found, self._path)

    @property
    def data_dir(self) -> str | None:
        """The folder of built datasets that the run read its data from, if it noted one."""
        found = self.fingerprints().get(_DATA_DIR) if self.has_begun else None
        return found if isinstance(found, str) else None

    @property
    def has_begun(self) -> bool:
        """True if a run has noted its data here."""
        return self._path.exists()

    def fingerprints(self) -> dict[str, Any]:
        """The fingerprints that `begin` noted, by name."""
        return checksums.read_json(self._path, BEGIN_ANEW)
