"""Every option of a request, through the C++ loader, against plain loops over classes."""

import math

import keras
import numpy as np
import pytest

from clarel_tf.decision.selected import NoneThreshold, Selected
from clarel_tf.models.saving import load_model
from clarel_tf.serving.refusals import plain_refusal
from clarel_tf.serving.signatures import PrototypeClassifier
from tests.helpers.cpp_calls import ask_cpp
from tests.helpers.options_model import request, save_with_options

ALPHA, THRESHOLD, LEAD, DOUBT = 0.25, 6.0, 0.5, 1.5
TEMPERATURES = (0.8, 0.5)  # the nearest class is new or unseen; it is seen
NAMES = [f"class {i}" for i in range(22)] + ["Großer Vogel"]
IS_SEEN = np.arange(23) % 3 > 0
COUNTS = np.arange(1, 24)
NEW = {
    "class 4": ["a red bird", "it is red"],
    "mine": ["a blue bird", "qwerty zxcv", "a bird"],
    "class 7": ["a white bird number 3"],
    "empty": [""],
}


class WithHead:
    """A model with a head of as many seen classes as there are here."""

    def __init__(self, model, head):
        self._model, self.image_classifier = model, head

    def __getattr__(self, name):
        return getattr(self._model, name)


class World:
    """A saved classifier with 23 classes in blocks of 5, and the same in plain Python."""

    def __init__(self, model, folder):
        rng = np.random.default_rng(0)
        self.model, self.path = model, folder / "model"
        self.images = rng.normal(size=(3, 12)).astype("f4")
        self.embedded = model.embed_images(self.images)
        center = self.embedded.mean(axis=0)
        self.prototypes = (center + rng.normal(size=(23, 16))).astype("f4")
        selected = Selected(
            alpha=ALPHA,
            temperature=TEMPERATURES[1],
            temperature_unseen=TEMPERATURES[0],
            none_of_these=NoneThreshold(THRESHOLD, 0.0, 0.0, lead=LEAD, doubt=DOUBT),
        )
        head = keras.layers.Dense(15)
        head.build((None, 16))
        head.set_weights([rng.normal(size=(16, 15)), rng.normal(size=15)])
        self.head = [weight.astype(float) for weight in head.get_weights()]
        classifier = PrototypeClassifier(
            *(WithHead(model, head), self.prototypes, NAMES, IS_SEEN, selected),
            k=4,
            block=5,
            counts=COUNTS,
        )
        save_with_options(classifier, model, self.path)

    def call(self, new=None, **options):
        return request(options.pop("image_features", self.images), new, **options)

    def expected(self, row, alpha=ALPHA, among=None, new=None, replaces=(), extends=()):
        """[(d_alpha, name, is new, is seen)] for one image, nearest first, by a loop."""
        listed = []
        for i in [*np.flatnonzero(IS_SEEN), *np.flatnonzero(~IS_SEEN)]:
            name = NAMES[i]
            if (among is None or name in among) and name not in (*replaces, *extends):
                distance = self.distance(row, self.prototypes[i], IS_SEEN[i], alpha)
                listed.append((distance, name, False, bool(IS_SEEN[i])))
        for name, sentences in (new or {}).items():
            vectors = [self.model.embed_texts([text])[0].astype(float) for text in sentences]
            i = NAMES.index(name) if name in extends else None
            if i is not None:
                vectors += [self.prototypes[i].astype(float)] * int(COUNTS[i])
            is_seen = i is not None and bool(IS_SEEN[i])
            distance = self.distance(row, sum(vectors) / len(vectors), is_seen, alpha)
            listed.append((distance, name, True, is_seen))
        return sorted(listed, key=lambda entry: entry[0])

    def distance(self, row, prototype, is_seen, alpha) -> float:
        plain = math.sqrt(
            sum((a - b) ** 2 for a, b in zip(self.embedded[row], prototype, strict=True))
        )
        return plain * (1 + alpha) if is_seen else plain

    def doubt(self, row, name) -> float:
        """-log P of a stored seen class by the head."""
        logits = [
            bias + sum(z * w for z, w in zip(self.embedded[row].astype(float), column, strict=True))
            for column, bias in zip(self.head[0].T, self.head[1], strict=True)
        ]
        seen = [NAMES[i] for i in np.flatnonzero(IS_SEEN)]
        return math.log(sum(map(math.exp, logits))) - logits[seen.index(name)]

    def compare(self, answer, k, new=None, alphas=(ALPHA,) * 3, limits=(THRESHOLD,) * 3, **options):
        for row in range(3):
            listed = self.expected(row, alphas[row], new=new, **options)
            temperature = TEMPERATURES[listed[0][3]]
            odds = [math.exp((listed[0][0] - entry[0]) / temperature) for entry in listed]
            probability = [one / sum(odds) for one in odds]
            assert answer["class_name"][row] == [entry[1] for entry in listed[:k]]
            near = pytest.approx([entry[0] for entry in listed[:k]], rel=1e-4)
            assert answer["distance"][row] == near
            assert answer["probability"][row] == pytest.approx(probability[:k], rel=2e-3)
            # The threshold belongs to the stored alpha.
            first, second = (
                entry[0] * ((1 + ALPHA) / (1 + alphas[row]) if entry[3] else 1)
                for entry in listed[:2]
            )
            strange = first - LEAD * (second - first)
            if listed[0][3]:  # an extended class stays the seen one that it was
                strange += DOUBT * self.doubt(row, listed[0][1])
            assert answer["strangeness"][row] == pytest.approx(strange, rel=1e-3)
            assert answer["accepted"][row] == (strange <= limits[row])
            assert answer["new_class_name"][row] == list(new or {})
            for column, name in enumerate(new or {}):
                (place,) = (i for i, e in enumerate(listed) if e[1] == name and e[2])
                assert answer["new_class_rank"][row][column] == place + 1
                found = [
                    answer[f"new_class_{what}"][row][column] for what in ("distance", "probability")
                ]
                assert found == pytest.approx([listed[place][0], probability[place]], rel=2e-3)


@pytest.fixture(scope="module")
def world(finished_run, tmp_path_factory):
    return World(load_model(finished_run / "model.keras"), tmp_path_factory.mktemp("options"))


def test_every_option_gives_what_a_loop_over_the_classes_gives(world, tmp_path):
    both = {"replaces": ["class 4"], "extends": ["class 7"]}
    few = ["class 20", "class 3", "Großer Vogel", "class 5"]
    ks, alphas = np.array([2, 6, 1], np.int32), np.array([0.0, 2.0, -0.5], np.float32)
    free = {"mine": NEW["mine"], "empty": [""]}
    huge = np.full(3, 2**31 - 1, np.int32)
    answers = ask_cpp(
        world.path,
        tmp_path,
        [
            world.call(),
            world.call(k=ks, alpha=alphas),
            world.call(among=few),
            world.call(free, k=ks),
            world.call(NEW, **both, alpha=alphas, k=huge),
            world.call(NEW, **both, among=["class 4", "class 20"], k=huge),
            world.call({"class 4": NEW["class 4"]}, replaces=["class 4"], among=["class 4"]),
            world.call(image_features=world.images[:0]),
            world.call(free, image_features=world.images[:0]),
            world.call(threshold=np.array([9.0, 0.1, -9.0], np.float32)),
        ],
    )
    world.compare(answers[0], 4)
    world.compare(answers[1], 6, alphas=alphas)
    world.compare(answers[2], 4, among=few)
    world.compare(answers[3], 6, new=free)
    world.compare(answers[4], 25, new=NEW, alphas=alphas, **both)
    world.compare(answers[5], 25, new=NEW, among=["class 4", "class 20"], **both)
    world.compare(answers[9], 4, limits=(9.0, 0.1, -9.0))
    # The replaced class alone is on offer, and all probability is its own.
    assert answers[6]["class_name"] == [["class 4"]] * 3
    assert answers[6]["probability"] == [[1.0]] * 3 and answers[6]["new_class_rank"] == [[1]] * 3
    assert answers[7]["accepted"] == answers[8]["accepted"] == answers[8]["new_class_rank"] == []
    # Of each sentence's words: "a red bird it is red", "a blue bird qwerty zxcv a bird", ...
    words = set(world.model.text_tower.vocabulary)
    for column, own in enumerate(NEW.values()):
        said = " ".join(own).split() or ["(nothing)"]
        share = sum(word in words for word in said) / len(said)
        known = [row[column] for row in answers[4]["new_class_known_words"]]
        assert known == pytest.approx([share] * 3)
    assert answers[4]["new_class_known_words"][0][3] == 0.0


def test_what_cannot_be_meant_is_refused_by_name_and_the_next_request_is_served(world, tmp_path):
    one = {"class 4": ["a red bird"]}
    broken = world.images.copy()
    broken[1, 2] = np.nan
    cases = {
        "the new class 'class 4' has the name of a stored class; put it into replaces": (
            world.call(one)
        ),
        "'Class  4' has the name of a stored class except for case or spaces": (
            world.call({"Class  4": ["a red bird"]})
        ),
        "'GROßER VOGEL ' has the name of a stored class except for case": (
            world.call({"GROßER VOGEL ": ["a red bird"]})
        ),
        "the new class 'Emu  x' has the name of another new class except for case or spaces": (
            world.call({"emu x": ["a red bird"], "jay": ["a bird"], "Emu  x": ["a bird"]})
        ),
        "among names 'Class 4', but no stored class has this name; the nearest are 'class 4'": (
            world.call(among=["class 3", "Class 4"])
        ),
        "no stored class has this name; the nearest are 'Großer Vogel', ": (
            world.call(among=["vogel"])
        ),
        r"among names '\E(', but": world.call(among=[r"\E("]),
        "replaces names 'class 5', but no sentence describes this class": (
            world.call(one, replaces=["class 5"])
        ),
        "extends names 'mine', but no stored class has this name": (
            world.call({"mine": ["a red bird"]}, extends=["mine"])
        ),
        "'class 4' is in replaces and in extends": (
            world.call(one, replaces=["class 4"], extends=["class 4"])
        ),
        "k must be at least 1": world.call(k=np.array([2, 0, 1], np.int32)),
        "one k is needed for each image, or none": world.call(k=np.array([2, 2], np.int32)),
        "one alpha is needed for each image, or none": world.call(alpha=np.zeros(1, "f4")),
        "alpha must be a finite number above -1": world.call(alpha=np.array([0, -3, 0], "f4")),
        "alpha must be a finite": world.call(alpha=np.array([0, np.nan, 0], "f4")),
        "image_features have 11 numbers for each image, but this model takes 12": (
            world.call(image_features=world.images[:, :-1])
        ),
        "image_features must be finite (there is NaN)": world.call(image_features=broken),
        "one class name is needed for each sentence": (
            world.call(one, class_names=["class 4", "class 5"])
        ),
    }
    answers = ask_cpp(world.path, tmp_path, [*cases.values(), world.call()])
    for message, answer in zip(cases, answers, strict=False):
        assert message in plain_refusal(answer["error"]), answer
        assert "{{node" not in plain_refusal(answer["error"])
    world.compare(answers[-1], 4)
