"""New classes beside few stored ones: the exported graph against plain loops over the rule."""

import math

import numpy as np
import pytest

from clarel_tf.decision.descriptions import DescriptionModel, ReferenceRivals
from clarel_tf.decision.rule import DecisionRule
from clarel_tf.decision.selected import NoneThreshold, Selected
from clarel_tf.models.saving import load_model
from clarel_tf.serving.signatures import PrototypeClassifier
from tests.helpers.cpp_calls import ask_cpp
from tests.helpers.options_model import request, save_with_options

ALPHA, SHARE, TYPICAL, SCATTER = 0.25, 0.05, 3.0, 2.0
CLASSES, REFERENCES, IMAGES = 12, 40, 6
NAMES = [f"class {i}" for i in range(CLASSES)]
IS_SEEN = np.arange(CLASSES) % 3 > 0
NEW = {"mine": ["a red bird", "it is red"], "other": ["a blue bird number 3"], "empty": [""]}


class World:
    """A saved classifier whose reference images lie around their classes."""

    def __init__(self, model, folder):
        rng = np.random.default_rng(0)
        self.model, self.path = model, folder / "model"
        self.images = rng.normal(size=(IMAGES, 12)).astype("f4")
        self.embedded = model.embed_images(self.images).astype(float)
        texts = model.embed_texts([text for own in NEW.values() for text in own]).mean(axis=0)
        center = (self.embedded.mean(axis=0) + texts) / 2
        self.prototypes = center + rng.normal(size=(CLASSES, 16))
        self.own = rng.choice(np.flatnonzero(IS_SEEN), REFERENCES)
        self.references = self.prototypes[self.own] + rng.normal(size=(REFERENCES, 16))
        self.center = self.prototypes[IS_SEEN].mean(axis=0)
        stored = [self.rivals(row, range(CLASSES)) for row in range(REFERENCES)]
        described = DescriptionModel(
            self.center.astype("f4"),
            self.references.astype("f4"),
            ReferenceRivals(
                np.array([one[0][0] for one in stored], "f4"),
                np.array([one[1][0] for one in stored], "f4"),
                np.array([one[0][1] for one in stored], "i4"),
            ),
            *(TYPICAL, SCATTER, SHARE),
            self.own.astype("i4"),
        )
        none = NoneThreshold(1e30, 0.0, 0.0)
        selected = Selected(alpha=ALPHA, temperature=1.0, none_of_these=none)
        rule = DecisionRule().with_descriptions(described)
        prototypes = self.prototypes.astype("f4")
        classifier = PrototypeClassifier(
            *(model, prototypes, NAMES, IS_SEEN, selected, rule), k=4, block=3
        )
        save_with_options(classifier, model, self.path)

    def rivals(self, row, offered) -> list[tuple[float, int]]:
        """(d_alpha, class) of the classes on offer but the image's own, nearest first."""
        found = [
            (math.dist(self.references[row], self.prototypes[i]) * (1 + ALPHA * IS_SEEN[i]), i)
            for i in offered
            if i != self.own[row]
        ]
        return [*sorted(found), (math.inf, -1), (math.inf, -1)]

    def distances(self, sentences, offered, replaced=None) -> list[float]:
        """The distance of each image to the class of these sentences, by the written rule."""
        count = len(sentences)
        mean = sum(self.model.embed_texts([text])[0].astype(float) for text in sentences) / count
        v = min(1.0, sum((mean - self.center) ** 2) / (TYPICAL + SCATTER / count))

        def distance(z) -> float:
            return math.sqrt(max(sum((z - mean) ** 2) - v * SCATTER / count, 1e-12))

        gains = []
        for row in range(REFERENCES):
            rivals = [one for one in self.rivals(row, offered) if one[1] != replaced]
            if rivals[0][0] < math.inf:
                gains.append(rivals[0][0] - distance(self.references[row]))
        gains.sort(reverse=True)
        extra = min(1.0, SHARE * (CLASSES + 1) / (len(offered) + 1)) - SHARE
        allowed = v**2 * SHARE + v**8 * extra
        place = min(max(allowed * len(gains) - 0.5, 0.0), len(gains) - 1)
        low = int(place)
        high = min(low + 1, len(gains) - 1)
        offset = max(0.0, gains[low] + (place - low) * (gains[high] - gains[low]))
        return [distance(z) + offset for z in self.embedded]


@pytest.fixture(scope="module")
def world(finished_run, tmp_path_factory):
    return World(load_model(finished_run / "model.keras"), tmp_path_factory.mktemp("among"))


# The stored classes on offer, by their numbers; class 3 is unseen.
OFFERS = [[3], [4], [1, 3], [2, 4, 5, 3, 11], list(range(CLASSES))]


def test_a_new_class_competes_for_reference_images_with_the_classes_on_offer(world, tmp_path):
    calls = [request(world.images, NEW, among=[NAMES[i] for i in offer]) for offer in OFFERS]
    calls.append(request(world.images, NEW))
    answers = ask_cpp(world.path, tmp_path, calls)
    for offer, answer in zip([*OFFERS, range(CLASSES)], answers, strict=True):
        expected = [world.distances(sentences, offer) for sentences in NEW.values()]
        found = np.array(answer["new_class_distance"])
        np.testing.assert_allclose(found, np.transpose(expected), rtol=1e-4, err_msg=str(offer))
    # It does matter who is on offer.
    assert not np.allclose(answers[0]["new_class_distance"], answers[-1]["new_class_distance"])


def test_classes_that_are_replaced_or_extended_are_on_offer_too(world, tmp_path):
    new = {"class 4": ["a red bird"], "class 5": ["a blue bird"], "mine": ["a white bird"]}
    given = {"among": ["class 1"], "replaces": ["class 4"], "extends": ["class 5"]}
    (answer,) = ask_cpp(world.path, tmp_path, [request(world.images, new, **given)])
    found = np.array(answer["new_class_distance"])
    offer = [1, 4, 5]
    np.testing.assert_allclose(
        found[:, 0], world.distances(new["class 4"], offer, replaced=4), rtol=1e-4
    )
    np.testing.assert_allclose(found[:, 2], world.distances(new["mine"], offer), rtol=1e-4)
