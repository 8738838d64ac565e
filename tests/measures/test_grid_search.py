import numpy as np
import pytest
from sklearn.svm import SVC

from tests.measures.digits import sigmoid_features
from thetarbm_cli.errors import InputError
from thetarbm_cli.measures.classification import judge
from thetarbm_cli.measures.grid_search import grid_search
from thetarbm_cli.measures.svm import RBFClassifier

C_VALUES = [0.5, 10.0, 200.0]
GAMMA_VALUES = [0.002, 0.02, 0.2]


def data():
    features, labels = sigmoid_features(1000, 60)
    return features[:500], labels[:500], features[500:], labels[500:]


def test_is_a_loop_over_svc():
    train, train_labels, valid, valid_labels = data()
    expected = []
    for C in C_VALUES:
        for gamma in GAMMA_VALUES:
            machine = SVC(C=C, gamma=gamma).fit(train.astype(np.float64), train_labels)
            error = 100 * np.mean(machine.predict(valid.astype(np.float64)) != valid_labels)
            expected.append({"C": C, "gamma": gamma, "validation_error_percent": pytest.approx(error, abs=1e-9)})
    result = grid_search(train, train_labels, valid, valid_labels, C_values=C_VALUES, gamma_values=GAMMA_VALUES)
    assert result.grid == expected
    errors = [point["validation_error_percent"] for point in result.grid]
    assert len(set(errors)) > 3
    best = result.grid[int(np.argmin(errors))]
    assert (result.C, result.gamma, result.validation_error_percent) == tuple(best.values())


def test_decisions_of_one_image_are_added_up():
    train, train_labels, valid, valid_labels = data()
    # Every image is seen once more, as the one seven places before it.
    rows = np.concatenate([np.arange(500), np.arange(500)[::-1]])
    views = np.concatenate([valid, np.roll(valid, 7, axis=0)[::-1]])
    grid = {"C_values": [1.0, 10.0], "gamma_values": [0.02, 0.2]}
    result = grid_search(train, train_labels, views, valid_labels, valid_rows=rows, **grid)
    for point in result.grid:
        classifier = RBFClassifier(point["C"], point["gamma"]).fit(train, train_labels)
        expected = judge(classifier, [(views, rows)], valid_labels).test_error_percent
        assert point["validation_error_percent"] == expected
    alone = grid_search(train, train_labels, valid, valid_labels, **grid)
    assert [point["validation_error_percent"] for point in alone.grid] != [
        point["validation_error_percent"] for point in result.grid
    ]


def test_chooses_the_first_of_equals():
    features = np.repeat(np.eye(3, dtype=np.float32) * 5, 4, axis=0)
    labels = np.repeat([3, 7, 9], 4)
    result = grid_search(features, labels, features, labels, C_values=[4.0, 2.0], gamma_values=[0.3, 0.1])
    assert [point["validation_error_percent"] for point in result.grid] == [0.0] * 4
    assert (result.C, result.gamma) == (4.0, 0.3)


def test_reports_progress():
    train, train_labels, valid, valid_labels = data()
    three = train_labels < 3
    known = valid_labels < 3
    steps = []
    grid_search(
        train[three],
        train_labels[three],
        valid[known],
        valid_labels[known],
        C_values=[1.0, 2.0],
        gamma_values=[0.02, 0.2],
        progress=lambda done, total: steps.append((done, total)),
    )
    assert steps == [(done, 12) for done in range(1, 13)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"C_values": []}, "at least one value"),
        ({"gamma_values": []}, "at least one value"),
        ({"C_values": [1.0, 0.0]}, "C is 0.0"),
        ({"gamma_values": [-0.02]}, "gamma is -0.02"),
        ({"valid_features": np.zeros((500, 59), dtype=np.float32)}, "59 columns, the training features 60"),
        ({"valid_features": np.full((500, 60), np.nan, dtype=np.float32)}, "validation features hold NaN"),
        ({"train_features": np.full((500, 60), np.nan, dtype=np.float32)}, "training features hold NaN"),
        ({"train_labels": np.zeros(500, dtype=int)}, "all of class 0"),
        ({"valid_labels": np.full(500, 12)}, "validation images have class 12"),
    ],
)
def test_refuses_what_cannot_be_searched(change, message):
    train, train_labels, valid, valid_labels = data()
    arguments = {
        "train_features": train,
        "train_labels": train_labels,
        "valid_features": valid,
        "valid_labels": valid_labels,
        "C_values": [1.0],
        "gamma_values": [0.02],
    }
    with pytest.raises(InputError, match=message):
        grid_search(**(arguments | change))
