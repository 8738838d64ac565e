import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from tests.measures.digits import digits, sigmoid_features
from thetarbm_cli.backend import Backend
from thetarbm_cli.errors import InputError
from thetarbm_cli.measures import svm
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


def reference(features, labels, C=10.0, gamma=0.02):
    machine = SVC(C=C, gamma=gamma, decision_function_shape="ovo")
    return machine.fit(features.astype(np.float64), labels)


def assert_same_model(ours, theirs, sign=1):
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)
    np.testing.assert_array_equal(ours.support_, theirs.support_)
    np.testing.assert_array_equal(ours.support_counts_, theirs.n_support_)
    np.testing.assert_array_equal(ours.support_vectors_, theirs.support_vectors_)
    np.testing.assert_allclose(ours.dual_coefficients_, sign * theirs.dual_coef_, rtol=0, atol=1e-3)
    np.testing.assert_allclose(ours.intercept_, sign * theirs.intercept_, rtol=0, atol=1e-3)


@pytest.mark.parametrize("kind", ["pixels", "sigmoid"])
def test_is_the_model_of_svc_on_digits(kind):
    features, labels = digits(TRAIN + TEST) if kind == "pixels" else sigmoid_features(TRAIN + TEST, 100)
    train, test = features[:TRAIN], features[TRAIN:]
    theirs = reference(train, labels[:TRAIN])
    ours = RBFClassifier().fit(train, labels[:TRAIN])
    assert_same_model(ours, theirs)
    decisions = ours.decision_pairs(test)
    np.testing.assert_allclose(decisions, theirs.decision_function(test.astype(np.float64)), atol=2e-4)
    np.testing.assert_array_equal(ours.predict(test), theirs.predict(test.astype(np.float64)))


def test_threads_change_no_bit():
    features, labels = sigmoid_features(TRAIN + 500, 100)
    train, test = features[:TRAIN], features[TRAIN:]
    results = []
    for threads in (1, 3):
        with threadpool_limits(threads, user_api="blas"):
            ours = RBFClassifier().fit(train, labels[:TRAIN])
            grid = grid_search(
                train[:400], labels[:400], test, labels[TRAIN:], C_values=[1.0, 10.0], gamma_values=[0.02, 0.2]
            )
            results.append((ours.dual_coefficients_, ours.intercept_, ours.decision_pairs(test), grid))
    for one, several in zip(*results, strict=True):
        np.testing.assert_array_equal(one, several)


@pytest.mark.parametrize(
    ("names", "C", "gamma"), [([-5, 100, 3], 0.1, 0.5), (["c", "a", "b"], 100.0, 0.02), ([0, 1], 10.0, 0.02)]
)
def test_is_the_model_of_svc_for_other_labels_and_settings(names, C, gamma):
    features, labels = blobs([30, 45, 26][: len(names)])
    named = np.array(names)[labels]
    theirs = reference(features, named, C, gamma)
    ours = RBFClassifier(C, gamma).fit(features, named)
    # Of two classes SVC turns the signs of libsvm round.
    sign = -1 if len(names) == 2 else 1
    assert_same_model(ours, theirs, sign)
    expected = sign * theirs.decision_function(features.astype(np.float64)).reshape(len(features), -1)
    np.testing.assert_allclose(ours.decision_pairs(features), expected, atol=1e-3)
    np.testing.assert_array_equal(ours.predict(features), theirs.predict(features.astype(np.float64)))


def test_ties_are_broken_as_svc_breaks_them():
    # Far from the data a narrow kernel leaves the vote to the intercepts: three classes can win in a circle.
    ties = 0
    for seed in range(40):
        features, labels = blobs([8, 9, 10], width=2, seed=seed)
        theirs = reference(features, labels, 10.0, 1.0)
        ours = RBFClassifier(10.0, 1.0).fit(features, labels)
        points = np.random.default_rng(seed).uniform(-30, 30, (500, 2)).astype(np.float32)
        wins = theirs.decision_function(points.astype(np.float64)) > 0
        votes = np.stack([wins[:, 0] * 1 + wins[:, 1], ~wins[:, 0] * 1 + wins[:, 2], ~wins[:, 1] * 1 + ~wins[:, 2]])
        ties += np.count_nonzero((votes == 1).all(axis=0))
        np.testing.assert_array_equal(ours.predict(points), theirs.predict(points.astype(np.float64)))
    assert ties > 0


def test_features_far_from_zero_or_from_each_other_and_large_ones_are_computed_in_enough_digits():
    features, labels = blobs([60, 60, 60], width=20)
    apart = blobs([60, 60, 60], width=20, spread=0.5)[0]
    apart[::2] += 2000
    for moved, gamma in ((features + np.float32(1000), 0.02), (features * np.float32(100), 0.02 / 100), (apart, 0.02)):
        theirs = reference(moved, labels, gamma=gamma)
        ours = RBFClassifier(gamma=gamma).fit(moved, labels)
        assert_same_model(ours, theirs)
        expected = theirs.decision_function(moved.astype(np.float64))
        np.testing.assert_allclose(ours.decision_pairs(moved), expected, atol=1e-4)


def test_a_chunk_is_as_good_as_another(monkeypatch):
    features, labels = blobs([40, 40, 40])
    classifier = RBFClassifier().fit(features, labels)
    whole = classifier.decision_pairs(features)
    monkeypatch.setattr("thetarbm_cli.measures.svm.ROWS_AT_ONCE", 7)
    np.testing.assert_allclose(classifier.decision_pairs(features), whole, atol=1e-5)
    monkeypatch.setattr("thetarbm_cli.measures.svm.BLOCK_BYTES", 1)
    np.testing.assert_allclose(classifier.decision_pairs(features), whole, atol=1e-5)
    np.testing.assert_array_equal(classifier.predict(features[:1]), classifier.predict(features)[:1])


def test_errors_are_those_of_svc():
    features, labels = sigmoid_features(TRAIN + TEST, 100)
    names = np.array([3, 7, 9, 12, 14, 15, 20, 21, 30, 31])[labels]
    theirs = reference(features[:TRAIN], names[:TRAIN])
    truth, given = names[TRAIN:], theirs.predict(features[TRAIN:].astype(np.float64))
    result = classify(features[:TRAIN], names[:TRAIN], features[TRAIN:], truth, C=10.0, gamma=0.02)
    assert result.classes == theirs.classes_.tolist()
    assert result.test_error_percent == pytest.approx(100 * np.mean(truth != given), abs=1e-12)
    for row, name in enumerate(result.classes):
        assert result.confusion[row] == [int(np.sum((truth == name) & (given == other))) for other in result.classes]
        assert result.error_per_class[row] == pytest.approx(100 * np.mean(given[truth == name] != name))
    assert result.support_vectors == len(theirs.support_)


def test_a_class_without_test_images_has_no_error():
    features, labels = blobs([20, 20, 20])
    test = labels < 2
    result = classify(features, labels, features[test], labels[test])
    assert result.error_per_class[2] is None
    assert sum(result.confusion[2]) == 0


FEATURES, LABELS = blobs([20, 20])
BROKEN = FEATURES.copy()
BROKEN[3, 2] = -np.inf


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"train": BROKEN}, "training features have NaN"),
        ({"test": BROKEN}, "given features have NaN"),
        ({"test": FEATURES[:, :5]}, "5 columns, the training features 6"),
        ({"test": FEATURES[0]}, "one row for each image"),
        ({"train": FEATURES[:, :0]}, "one row for each image"),
        ({"train_labels": np.zeros(40, dtype=int)}, "all of class 0"),
        ({"train_labels": np.arange(40) == 7}, "class True has one training image"),
        ({"train_labels": LABELS[1:]}, "40 training images but labels of the shape"),
        ({"test_labels": LABELS + 1}, "test images have class 2"),
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
    classifier = RBFClassifier(C=5.0, gamma=0.3).fit(features, labels)
    rows = np.sort(np.concatenate([np.arange(15), generator.integers(15, size=12)]))
    seen = generator.normal(size=(27, 4)).astype(np.float32) + 1
    truth = generator.choice([2, 4, 7], size=15)
    values = reference(features, labels, C=5.0, gamma=0.3).decision_function(seen)
    wrong = 0
    for image in range(15):
        sums = values[rows == image].sum(axis=0)
        votes = {2: 0, 4: 0, 7: 0}
        for value, (first, second) in zip(sums, [(2, 4), (2, 7), (4, 7)], strict=True):
            votes[first if value > 0 else second] += 1
        wrong += max(votes, key=lambda label: votes[label]) != truth[image]
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
    for C in C_VALUES:
        for gamma in GAMMA_VALUES:
            machine = SVC(C=C, gamma=gamma).fit(train.astype(np.float64), train_labels)
            error = 100 * np.mean(machine.predict(valid.astype(np.float64)) != valid_labels)
            expected.append({"C": C, "gamma": gamma, "validation_error_percent": pytest.approx(error, abs=1e-9)})
    steps = []
    grid = {"C_values": C_VALUES, "gamma_values": GAMMA_VALUES}
    result = grid_search(*split_digits(), **grid, progress=lambda *step: steps.append(step))
    assert steps == [(done, 45) for done in range(1, 46)]  # pairs of classes
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
    grid = {"C_values": [1.0, 10.0], "gamma_values": [0.02, 0.2]}
    result = grid_search(train, train_labels, views, valid_labels, valid_rows=rows, **grid)
    for point in result.grid:
        classifier = RBFClassifier(point["C"], point["gamma"]).fit(train, train_labels)
        expected = evaluate_classifier(classifier, [(views, rows)], valid_labels).test_error_percent
        assert point["validation_error_percent"] == expected
    assert grid_search(train, train_labels, valid, valid_labels, **grid).grid != result.grid


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"C_values": []}, "at least one value"),
        ({"C_values": [1.0, 0.0]}, "C is 0.0"),
        ({"valid_features": np.zeros((500, 59), dtype=np.float32)}, "59 columns, the training features 60"),
        ({"valid_features": np.full((500, 60), np.nan, dtype=np.float32)}, "validation features have NaN"),
        ({"train_labels": np.zeros(500, dtype=int)}, "all of class 0"),
        ({"valid_labels": np.full(500, 12)}, "validation images have class 12"),
    ],
)
def test_grid_search_refuses_what_cannot_be_searched(change, message):
    train, train_labels, valid, valid_labels = split_digits()
    features = {"train_features": train, "valid_features": valid, "C_values": [1.0], "gamma_values": [0.02]}
    with pytest.raises(InputError, match=message):
        grid_search(**({"train_labels": train_labels, "valid_labels": valid_labels} | features | change))


def test_float32_is_used_where_the_kernel_is_good_to_1e_5():
    # Points in two narrow groups, as far from their common centre as may be.
    gamma, centre, backend = 0.02, np.zeros(50), Backend()
    points = np.repeat([10.0, -10.0], 100)[:, None] + np.random.default_rng(4).normal(0, 0.3, (200, 50))
    points *= np.sqrt(svm.LARGEST_FLOAT32_EXPONENT / gamma / np.sum(points**2, axis=1).max()) * (1 - 1e-9)
    rows, norms = svm.centred(points, centre, backend)
    assert svm.product_dtype(gamma * norms.max()) is np.float32
    left = svm.left_operand(rows, norms, np.float32, backend)
    right = svm.right_operand(rows, norms, np.float32, backend, scale=gamma)
    expected = np.exp(-gamma * cdist(points, points, "sqeuclidean"))
    np.testing.assert_allclose(svm.rbf_kernel(left, right, backend), expected, atol=1e-5)


@pytest.mark.parametrize("there", [False, True])
def test_no_device_is_mixed_with_another(device, there):
    place = device.asarray if there else np.asarray
    features, every_label = sigmoid_features(600, 40)
    train, labels, test, test_labels = features[:400], every_label[:400], features[400:], every_label[400:]
    expected = RBFClassifier().fit(train, labels)
    classifier = RBFClassifier(backend=device).fit(place(train), labels)
    np.testing.assert_array_equal(classifier.support_, expected.support_)
    np.testing.assert_array_equal(classifier.dual_coefficients_, expected.dual_coefficients_)
    decisions = classifier.decision_pairs(place(test))
    np.testing.assert_array_equal(decisions, expected.decision_pairs(test))
    np.testing.assert_array_equal(classifier.predict(place(test)), expected.predict(test))
    for result in (decisions, classifier.support_vectors_, classifier.predict(place(test))):
        assert isinstance(result, np.ndarray)

    settings = {"C_values": [1.0, 10.0], "gamma_values": [0.02, 0.2]}
    found = grid_search(place(train), labels, place(test), test_labels, **settings, backend=device)
    assert found == grid_search(train, labels, test, test_labels, **settings)
    error = classify(train, labels, test, test_labels)
    assert classify(place(train), labels, place(test), test_labels, backend=device) == error
