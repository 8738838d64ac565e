import numpy as np
import pytest

from tests.measures.digits import sigmoid_features
from thetarbm_cli.measures.classification import classify
from thetarbm_cli.measures.gamma import GammaAccumulator
from thetarbm_cli.measures.grid_search import grid_search
from thetarbm_cli.measures.svm import RBFClassifier


def data():
    features, labels = sigmoid_features(600, 40)
    return features[:400], labels[:400], features[400:], labels[400:]


@pytest.mark.parametrize("there", [False, True])
def test_the_classifier_does_not_mix_devices(device, there):
    place = device.asarray if there else np.asarray
    train, labels, test, _ = data()
    expected = RBFClassifier().fit(train, labels)
    classifier = RBFClassifier(backend=device).fit(place(train), labels)
    np.testing.assert_array_equal(classifier.support_, expected.support_)
    np.testing.assert_array_equal(classifier.dual_coefficients_, expected.dual_coefficients_)
    decisions = classifier.decision_pairs(place(test))
    np.testing.assert_array_equal(decisions, expected.decision_pairs(test))
    np.testing.assert_array_equal(classifier.predict(place(test)), expected.predict(test))
    for result in (decisions, classifier.support_vectors_, classifier.predict(place(test))):
        assert isinstance(result, np.ndarray)


@pytest.mark.parametrize("there", [False, True])
def test_error_and_grid_search_do_not_mix_devices(device, there):
    place = device.asarray if there else np.asarray
    train, labels, test, test_labels = data()
    settings = {"C_values": [1.0, 10.0], "gamma_values": [0.02, 0.2]}
    expected = grid_search(train, labels, test, test_labels, **settings)
    result = grid_search(place(train), labels, place(test), test_labels, **settings, backend=device)
    assert result == expected
    expected_error = classify(train, labels, test, test_labels)
    assert classify(place(train), labels, place(test), test_labels, backend=device) == expected_error


def test_the_gamma_score_does_not_mix_devices(device):
    features = np.random.default_rng(2).random((5, 30, 4), dtype=np.float32)
    scores = []
    for backend, place in ((None, np.asarray), (device, device.asarray)):
        accumulator = GammaAccumulator(4, backend)
        for rows in (slice(0, 20), slice(20, 30)):
            accumulator.add(place(features[0, rows]), [place(copy[rows]) for copy in features[1:]])
        scores.append(accumulator.result())
    np.testing.assert_array_equal(scores[0].per_unit, scores[1].per_unit)
    assert (scores[0].mean, scores[0].bounded) == (scores[1].mean, scores[1].bounded)
    assert isinstance(scores[1].per_unit, np.ndarray)
