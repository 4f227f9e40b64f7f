"""What is said about figures of small tests, and about a threshold that misses its aim."""

import dataclasses

import pytest

from clarel_tf.evaluation.records import SizeOfTest
from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.reporting.cautions import cautions
from clarel_tf.reporting.results_table import results_table


@pytest.fixture
def results(finished_run):
    return RunFolder(finished_run).read_results()


def with_size(results, size, accepted=95.0):
    strangers = dataclasses.replace(results.strangers, accepted=accepted)
    return dataclasses.replace(results, test_size=size, strangers=strangers)


def test_a_run_knows_the_size_of_its_test(results):
    # 6 seen classes with 12 images and 2 unseen ones with 8, see tests/conftest.py.
    assert results.test_size == SizeOfTest(20, 6, 2)
    table = results_table(results)
    assert (
        "The test has 20 images of 8 classes, 2 of them unseen; guessing has a ZSL of 50.0" in table
    )


def test_a_large_test_with_a_threshold_that_fits_is_not_worth_a_word(results):
    assert cautions(with_size(results, SizeOfTest(4731, 150, 50))) == []
    assert len(cautions(with_size(results, SizeOfTest(4731, 150, 9)))) == 1
    assert len(cautions(with_size(results, SizeOfTest(999, 150, 50)))) == 1
    no_unseen = cautions(with_size(results, SizeOfTest(20, 6, 0)))
    assert len(no_unseen) == 1 and "guessing" not in no_unseen[0]


@pytest.mark.parametrize(("accepted", "count"), [(57.4, 1), (89.9, 1), (90.1, 0), (99.0, 0)])
def test_a_threshold_that_misses_its_aim_is_told(results, accepted, count):
    told = cautions(with_size(results, None, accepted))
    assert len(told) == count
    assert not told or f"it accepts {accepted:.0f} % of the test images" in told[0]


def test_runs_of_older_versions_say_nothing(results):
    assert cautions(dataclasses.replace(results, test_size=None, strangers=None)) == []
