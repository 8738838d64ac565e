from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from tests.measures.digits import digits, sigmoid_features
from thetarbm_cli.errors import InputError
from thetarbm_cli.measures.svm import RBFClassifier, evaluate_classifier, grid_search

TRAIN, TEST = 1200, 4000
C_VALUES = [0.5, 10.0, 200.0]
GAMMA_VALUES = [0.002, 0.02, 0.2]


def classify(train, train_labels, test, test_labels, C=10.0, gamma=0.02, backend=None):
    classifier = RBFClassifier(C, gamma, backend).fit(train, train_labels)
    return evaluate_classifier(classifier, [(test, np.arange(len(test)))], test_labels)


def blobs(counts, width=6, seed=0, spread=1.5):
    random = np.random.default_rng(seed)
    centres = random.normal(size=(len(counts), width))
    labels = np.repeat(np.arange(len(counts)), counts)
    features = centres[labels] + spread * random.normal(size=(len(labels), width))
    order = random.permutation(len(labels))
    return features[order].astype(np.float32), labels[order]


FEATURES, LABELS = blobs([20, 20])
BROKEN = np.where(np.arange(240).reshape(40, 6) == 20, -np.inf, FEATURES)


def reference(features, labels, C=10.0, gamma=0.02):
    return SVC(C=C, gamma=gamma, decision_function_shape="ovo").fit(features.astype(np.float64), labels)


def assert_same_model(ours, theirs, test):
    # Of two classes SVC turns the signs of libsvm round.
    sign = -1 if len(theirs.classes_) == 2 else 1
    decisions = sign * theirs.decision_function(test.astype(np.float64)).reshape(len(test), -1)
    np.testing.assert_allclose(ours.decision_pairs(test), decisions, rtol=1e-7, atol=1e-4)
    np.testing.assert_array_equal(ours.predict(test), theirs.predict(test.astype(np.float64)))
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)
    np.testing.assert_array_equal(ours.support_, theirs.support_)
    np.testing.assert_array_equal(ours.support_counts_, theirs.n_support_)
    np.testing.assert_array_equal(ours.support_vectors_, theirs.support_vectors_)
    np.testing.assert_allclose(ours.dual_coefficients_, sign * theirs.dual_coef_, rtol=0, atol=1e-3)
    np.testing.assert_allclose(ours.intercept_, sign * theirs.intercept_, rtol=0, atol=1e-3)


@pytest.mark.parametrize("kind", ["pixels", "sigmoid"])
def test_is_the_model_of_svc_on_digits(kind):
    features, labels = digits(TRAIN + TEST) if kind == "pixels" else sigmoid_features(TRAIN + TEST, 100)
    train = features[:TRAIN], labels[:TRAIN]
    assert_same_model(RBFClassifier().fit(*train), reference(*train), features[TRAIN:])


def test_threads_change_no_bit():
    features, labels = sigmoid_features(TRAIN + 500, 100)
    train, test = features[:TRAIN], features[TRAIN:]
    results = []
    for threads in (1, 3):
        with threadpool_limits(threads, user_api="blas"):
            ours = RBFClassifier().fit(train, labels[:TRAIN])
            parts = train[:400], labels[:400], test, labels[TRAIN:]
            grid = grid_search(*parts, C_values=[1.0, 10.0], gamma_values=[0.02, 0.2])
            results.append((ours.dual_coefficients_, ours.intercept_, ours.decision_pairs(test), grid))
    for one, several in zip(*results, strict=True):
        np.testing.assert_array_equal(one, several)


def test_callers_may_have_threads_of_their_own(monkeypatch):
    monkeypatch.setattr("thetarbm_cli.measures.svm.ROWS_AT_ONCE", 50)
    features, labels = sigmoid_features(400, 100)
    classifier = RBFClassifier().fit(features, labels)
    expected = classifier.decision_pairs(features)
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(4) as pool:
        fitted = list(pool.map(lambda _: RBFClassifier().fit(features, labels), range(4)))
        for given in pool.map(lambda each: each.decision_pairs(features), [*fitted, *[classifier] * 4]):
            np.testing.assert_array_equal(given, expected)


def test_numpys_global_numbers_are_left_alone():
    before = str(np.random.get_state())  # noqa: NPY002
    RBFClassifier().fit(*blobs([5, 5, 5]))
    assert str(np.random.get_state()) == before  # noqa: NPY002


@pytest.mark.parametrize(
    ("names", "counts", "C", "gamma"),
    [
        ([-5, 100, 3], [30, 45, 26], 0.1, 0.5),
        (["c", "a", "b"], [30, 45, 26], 100.0, 0.02),
        ([0, 1], [30, 45], 10.0, 0.02),
        ([0, 1, 2, 3], [20, 1, 1, 20], 10.0, 0.02),
        ([0, 1], [1, 1], 10.0, 0.02),
    ],
)
def test_is_the_model_of_svc_for_other_classes_and_settings(names, counts, C, gamma):
    features, labels = blobs(counts)
    named = np.array(names)[labels]
    assert_same_model(RBFClassifier(C, gamma).fit(features, named), reference(features, named, C, gamma), features)


def test_ties_are_broken_as_svc_breaks_them():
    # Far from the data a narrow kernel leaves the vote to the intercepts: three classes can win in a circle.
    ties = 0
    for seed in range(40):
        features, labels = blobs([8, 9, 10], width=2, seed=seed)
        theirs = reference(features, labels, 10.0, 1.0)
        ours = RBFClassifier(10.0, 1.0).fit(features, labels)
        points = np.random.default_rng(seed).uniform(-30, 30, (500, 2)).astype(np.float32)
        wins = theirs.decision_function(points.astype(np.float64)) > 0
        ties += np.count_nonzero((wins[:, 0] != wins[:, 1]) & (wins[:, 0] == wins[:, 2]))
        np.testing.assert_array_equal(ours.predict(points), theirs.predict(points.astype(np.float64)))
    assert ties > 0


def test_features_far_from_zero_or_from_each_other_and_large_ones_are_computed_in_enough_digits():
    features, labels = blobs([60, 60, 60], width=20)
    apart = blobs([60, 60, 60], width=20, spread=0.5)[0]
    apart[::2] += 2000
    for moved, gamma in ((features + np.float32(1000), 0.02), (features * np.float32(100), 0.02 / 100), (apart, 0.02)):
        ours, theirs = RBFClassifier(gamma=gamma).fit(moved, labels), reference(moved, labels, gamma=gamma)
        assert_same_model(ours, theirs, moved)


def test_a_chunk_is_as_good_as_another(monkeypatch):
    features, labels = blobs([40, 40, 40])
    classifier = RBFClassifier().fit(features, labels)
    whole = classifier.decision_pairs(features)
    monkeypatch.setattr("thetarbm_cli.measures.svm.ROWS_AT_ONCE", 7)
    np.testing.assert_allclose(classifier.decision_pairs(features), whole, atol=1e-5)
    monkeypatch.setattr("thetarbm_cli.measures.svm.BLOCK_BYTES", 1)
    np.testing.assert_allclose(classifier.decision_pairs(features), whole, atol=1e-5)
    np.testing.assert_array_equal(classifier.predict(features[:1]), classifier.predict(features)[:1])


@pytest.mark.parametrize(("unlearned", "untested"), [([], []), ([0, 4, 5], [7])])
def test_errors_are_those_of_svc_which_never_gives_a_class_it_has_not_learned(unlearned, untested):
    features, labels = sigmoid_features(TRAIN + TEST, 100)
    names = np.array([3, 7, 9, 12, 14, 15, 20, 21, 30, 31])
    learned = np.flatnonzero(~np.isin(labels[:TRAIN], unlearned))
    tested = TRAIN + np.flatnonzero(~np.isin(labels[TRAIN:], untested))
    theirs = reference(features[learned], names[labels[learned]])
    truth, given = names[labels[tested]], theirs.predict(features[tested].astype(np.float64))
    parts = features[learned], names[labels[learned]], features[tested], truth
    result = classify(*parts)
    assert result.classes == names.tolist()
    assert result.test_error_percent == pytest.approx(100 * np.mean(truth != given), abs=1e-12)
    np.testing.assert_array_equal(result.confusion, confusion_matrix(truth, given, labels=names))
    for digit, name in enumerate(names):
        expected = None if digit in untested else pytest.approx(100 * np.mean(given[truth == name] != name))
        assert result.error_per_class[digit] == expected
    assert result.support_vectors == len(theirs.support_)
    found = grid_search(*parts, C_values=[10.0], gamma_values=[0.02])
    assert found.validation_error_percent == result.test_error_percent


@pytest.mark.parametrize("name", [7, "seven"])
def test_who_learns_one_class_predicts_it(name):
    truth = np.array([name] * 30 + [name * 2] * 10)
    assert RBFClassifier().fit(FEATURES[:1], truth[:1]).predict(FEATURES).tolist() == [name] * 40
    result = classify(FEATURES[:5], truth[:5], FEATURES, truth)
    assert (result.classes, result.test_error_percent, result.support_vectors) == ([name, name * 2], 25, 0)
    assert result.confusion == [[30, 0], [10, 0]]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"train": BROKEN}, "training features have NaN"),
        ({"test": BROKEN}, "given features have NaN"),
        ({"test": FEATURES[:, :5]}, "5 columns, the training features 6"),
        ({"test": FEATURES[0]}, "one row for each image"),
        ({"train": FEATURES[:, :0]}, "one row for each image"),
        ({"train_labels": LABELS[1:]}, "40 training images but labels of the shape"),
        ({"test_labels": LABELS[1:]}, "labels"),
        ({"C": 0.0}, r"C is .*positive"),
        ({"gamma": np.inf}, r"gamma is .*positive"),
    ],
)
def test_what_cannot_be_classified_is_refused(changed, message):
    given = {"train": FEATURES, "train_labels": LABELS, "test": FEATURES, "test_labels": LABELS, **changed}
    with pytest.raises(InputError, match=message):
        classify(**given)


def test_decisions_of_an_image_that_is_seen_in_several_ways_are_added_up():
    generator = np.random.default_rng(5)
    labels = np.repeat([2, 4, 7], 20)
    features = generator.normal(size=(60, 4)).astype(np.float32) + labels[:, None] / 4
    rows = np.sort(np.concatenate([np.arange(15), generator.integers(15, size=12)]))
    seen = generator.normal(size=(27, 4)).astype(np.float32) + 1
    truth = generator.choice([2, 4, 7], size=15)
    values = reference(features, labels, C=5.0, gamma=0.3).decision_function(seen)
    wrong = 0
    for image in range(15):
        votes = {2: 0, 4: 0, 7: 0}
        for value, pair in zip(values[rows == image].sum(axis=0), [(2, 4), (2, 7), (4, 7)], strict=True):
            votes[pair[0] if value > 0 else pair[1]] += 1
        wrong += max(votes, key=lambda label: votes[label]) != truth[image]
    classifier = RBFClassifier(C=5.0, gamma=0.3).fit(features, labels)
    cut = int(np.searchsorted(rows, 6))
    result = evaluate_classifier(classifier, [(seen[:cut], rows[:cut]), (seen[cut:], rows[cut:])], truth)
    assert result.test_error_percent == pytest.approx(100 * wrong / 15)
    assert np.sum(result.confusion) == 15


def split_digits():
    features, labels = sigmoid_features(1000, 60)
    return features[:500], labels[:500], features[500:], labels[500:]


def test_grid_search_is_a_loop_over_svc():
    train, train_labels, valid, valid_labels = split_digits()
    expected = []
    for C, gamma in product(C_VALUES, GAMMA_VALUES):
        given = reference(train, train_labels, C, gamma).predict(valid.astype(np.float64))
        error = pytest.approx(100 * np.mean(given != valid_labels), abs=1e-9)
        expected.append({"C": C, "gamma": gamma, "validation_error_percent": error})
    steps = []
    grid = {"C_values": C_VALUES, "gamma_values": GAMMA_VALUES}
    result = grid_search(*split_digits(), **grid, progress=lambda *step: steps.append(step))
    assert steps == [(done, 9) for done in range(1, 10)]
    assert result.grid == expected
    errors = [point["validation_error_percent"] for point in result.grid]
    assert len(set(errors)) > 3
    best = result.grid[int(np.argmin(errors))]  # the first of equals
    assert (result.C, result.gamma, result.validation_error_percent) == tuple(best.values())


def test_grid_search_adds_up_the_decisions_of_one_image():
    train, train_labels, valid, valid_labels = split_digits()
    # Every image is seen once more, as the one seven places before it.
    rows = np.concatenate([np.arange(500), np.arange(500)[::-1]])
    views = np.concatenate([valid, np.roll(valid, 7, axis=0)[::-1]])
    grid = {"C_values": [1.0], "gamma_values": [0.2]}
    result = grid_search(train, train_labels, views, valid_labels, valid_rows=rows, **grid)
    classifier = RBFClassifier(1.0, 0.2).fit(train, train_labels)
    expected = evaluate_classifier(classifier, [(views, rows)], valid_labels).test_error_percent
    assert result.validation_error_percent == expected
    assert grid_search(train, train_labels, valid, valid_labels, **grid) != result


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"C_values": []}, "at least one value"),
        ({"C_values": [1.0, 0.0]}, "C is 0.0"),
        ({"valid_features": FEATURES[:, :5]}, "5 columns, the training features 6"),
        ({"valid_features": BROKEN}, "validation features have NaN"),
        ({"valid_labels": LABELS[1:]}, "40 validation images but labels of the shape"),
    ],
)
def test_grid_search_refuses_what_cannot_be_searched(change, message):
    given = {"valid_features": FEATURES, "valid_labels": LABELS, "C_values": [1.0], "gamma_values": [0.02], **change}
    with pytest.raises(InputError, match=message):
        grid_search(FEATURES, LABELS, **given)


@pytest.mark.cupy
@pytest.mark.parametrize("there", [False, True])
def test_no_device_is_mixed_with_another(device, there):
    place = device.asarray if there else np.asarray
    features, every_label = sigmoid_features(600, 40)
    train, labels, test, test_labels = features[:400], every_label[:400], features[400:], every_label[400:]
    expected = RBFClassifier().fit(train, labels)
    classifier = RBFClassifier(backend=device).fit(place(train), labels)
    np.testing.assert_array_equal(classifier.support_, expected.support_)
    np.testing.assert_allclose(classifier.dual_coefficients_, expected.dual_coefficients_, rtol=1e-6, atol=1e-9)
    decisions = classifier.decision_pairs(place(test))
    np.testing.assert_allclose(decisions, expected.decision_pairs(test), rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(classifier.predict(place(test)), expected.predict(test))
    for result in (decisions, classifier.support_vectors_, classifier.predict(place(test))):
        assert isinstance(result, np.ndarray)

    parts = place(train), labels, place(test), test_labels
    assert classify(*parts, backend=device) == classify(train, labels, test, test_labels)
    settings = {"C_values": [1.0, 10.0], "gamma_values": [0.02, 0.2]}
    found = grid_search(*parts, **settings, backend=device)
    assert found == grid_search(train, labels, test, test_labels, **settings)
