"""`PartCalls`: calls signatures, large requests in parts, and checks the answers."""

import threading

import numpy as np

from clarel_tf.errors import ClarelError
from clarel_tf.serving.answers import Answer, check_answer, joined
from clarel_tf.serving.calls import BadPictures, Deadline, ServingError, TooLarge
from clarel_tf.serving.new_class_answers import without_empty
from clarel_tf.serving.parts import Inputs, as_inputs, part_ends, part_of, row_count
from clarel_tf.serving.refusals import refused_pictures
from clarel_tf.serving.transports import Transport

_LONGEST_PROBLEM = 200  # characters of what a server says of a picture


class PartCalls:
    """Calls of a client; threads may share it.

    Attributes:
      export_id: the id of the export that answered first; answers of others are refused.
    """

    def __init__(self, transport: Transport, batch_size: int):
        """Takes a transport and the maximal rows of a part."""
        self._transport, self._batch_size = transport, batch_size
        self.export_id: str | None = None
        self._lock = threading.Lock()

    def predict(self, model: str, inputs: Inputs, signature: str, deadline: Deadline) -> Answer:
        """The answer to all rows, by name."""
        inputs = as_inputs(inputs)
        rows, parts, start = row_count(inputs), [], 0
        for stop in part_ends(inputs, self._batch_size, self._transport.number_bytes):
            parts += self._ask(model, signature, inputs, start, stop, rows is not None, deadline)
            start = stop
        try:
            answer = joined(parts)
            self._check_export(answer.pop("export_id", np.array([])))
        except ServingError as error:
            raise ServingError(f"{model}, {signature}: {error}") from error
        return answer

    def _ask(
        self,
        model: str,
        signature: str,
        inputs: Inputs,
        start: int,
        stop: int,
        has_rows: bool,
        deadline: Deadline,
    ) -> list[Answer]:
        """Checked answers for rows `start` to `stop`, in halves if the request is too large."""
        try:
            part = part_of(inputs, start, stop)
            answer = without_empty(self._transport.predict(model, signature, part, deadline))
        except TooLarge as error:
            if stop - start < 2:
                if "image_bytes" not in inputs:
                    raise
                size = len(part["image_bytes"][0]) / 1e6
                raise BadPictures({start: f"has {size:.1f} MB, too many for the server"}) from error
            middle = (start + stop) // 2
            return [
                *self._ask(model, signature, inputs, start, middle, has_rows, deadline),
                *self._ask(model, signature, inputs, middle, stop, has_rows, deadline),
            ]
        except ClarelError as error:
            found = refused_pictures(str(error)) if "image_bytes" in inputs else {}
            bad = {start + row: text[:_LONGEST_PROBLEM] for row, text in found.items()}
            if not bad or max(bad) >= stop:
                raise
            raise BadPictures(bad) from error
        try:
            check_answer(answer, stop - start if has_rows else None)
        except ServingError as error:
            raise ServingError(f"{model}, {signature}: {error}") from error
        return [answer]

    def _check_export(self, export_ids: np.ndarray) -> None:
        """Raises ServingError if `export_ids`, str [N], name another export; N may be 0."""
        if not len(export_ids):
            return
        with self._lock:
            self.export_id = self.export_id or export_ids[0]
            own = self.export_id
        if any(export_id != own for export_id in export_ids):
            raise ServingError(
                "the server changed to another export meanwhile, and embeddings of two exports "
                "cannot be compared; connect again, and repeat the embeddings that you have kept"
            )
