"""What is said about alpha: a range, the interval, or that the data cannot tell."""

import dataclasses

from clarel_tf.evaluation.records import AlphaPoint
from clarel_tf.experiments.run_folder import RunFolder
from clarel_tf.reporting.alpha_certainty import alpha_certainty
from clarel_tf.reporting.results_table import results_table

PERFECT = [
    AlphaPoint(0.0, 90.0, 100.0, 94.7),
    AlphaPoint(0.125, 100.0, 100.0, 100.0),
    AlphaPoint(0.25, 100.0, 100.0, 100.0),
    AlphaPoint(0.5, 100.0, 80.0, 88.9),
]
ORDINARY = [AlphaPoint(0.0, 50.0, 80.0, 61.5), AlphaPoint(0.1, 60.0, 70.0, 64.6)]


def test_a_range_of_alphas_without_a_wrong_answer_is_named():
    told = alpha_certainty(PERFECT, [0.125, 0.125])
    assert "every alpha from 0.125 to 0.25 answers all validation images right" in told
    assert "cannot tell" in told and "95 %" not in told


def test_a_point_is_never_shown_as_a_95_percent_interval():
    told = alpha_certainty(ORDINARY, [0.1, 0.1])
    assert "95 %" not in told and "no certainty" in told
    assert "no alpha above 0 changes" in alpha_certainty(ORDINARY[:1], [0.0, 0.0])


def test_an_interval_with_a_width_is_shown():
    told = alpha_certainty(ORDINARY, [0.02, 0.2])
    assert told == "alpha: 95 % interval 0.02 to 0.2, from resampled validation classes"
    assert alpha_certainty(ORDINARY, None) == ""  # of an older run
    assert alpha_certainty([], None) == ""


def test_the_printed_table_says_that_validation_cannot_tell(finished_run):
    results = RunFolder(finished_run).read_results()
    results = dataclasses.replace(
        results, alpha=0.0, alpha_curve=PERFECT, alpha_interval=[0.0, 0.0]
    )
    table = results_table(results)
    assert "validation data cannot tell" in table and "95 % interval" not in table
