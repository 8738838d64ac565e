from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from thetarbm_cli.data.recipes import balanced_choice, draw_split, rank_within_class, raw_numbers

label_lists = st.lists(st.integers(0, 5), min_size=1, max_size=60)


@given(label_lists)
def test_rank_counts_earlier_images_of_the_class(labels: list[int]) -> None:
    expected = [labels[:i].count(label) for i, label in enumerate(labels)]
    assert rank_within_class(np.array(labels)).tolist() == expected


@given(label_lists, st.integers(0, 80))
def test_balanced_choice_is_balanced_as_far_as_classes_reach(labels: list[int], count: int) -> None:
    chosen = balanced_choice(np.array(labels), count)
    assert len(chosen) == min(count, len(labels))
    assert chosen.tolist() == sorted(set(chosen.tolist()))
    available, taken = Counter(labels), Counter(labels[i] for i in chosen)
    most = max(taken.values(), default=0)
    for label, number in available.items():
        # A class has fewer than the others have only where it has no more, or by the one of a remainder.
        assert taken[label] >= min(number, most - 1)
        # The first ones of each class.
        assert [i for i in chosen if labels[i] == label] == [i for i, other in enumerate(labels) if other == label][
            : taken[label]
        ]


@given(label_lists, st.integers(0, 2**32 - 1))
def test_drawn_split_is_60_10_30_in_every_class(labels: list[int], seed: int) -> None:
    column = np.array(labels)
    split = draw_split(column, raw_numbers(len(labels), seed, 3))
    for label in set(labels):
        parts = np.bincount(split[column == label], minlength=3)
        size = parts.sum()
        assert abs(parts[0] - 0.6 * size) <= 0.5
        assert abs(parts[0] + parts[1] - 0.7 * size) <= 0.5
        assert parts[0] >= 1
