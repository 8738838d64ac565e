"""What of the measures a record lacks; without models, so that who only asks does not wait for their imports."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from thetarbm_cli.experiments.runs.record import MetricsPart

# Δ of the γ-score in the tables, and of the other measures.
DEFAULT_OFFSET = 20.0


@dataclass(frozen=True)
class MissingMeasures:
    """The measures that a record lacks; γ as pairs of the offset and the role of the images, others by name."""

    svm: bool
    gamma: tuple[tuple[float, str], ...]
    search: bool
    more: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.svm or bool(self.gamma) or self.search or bool(self.more)

    def with_all_of(self, metrics: MetricsPart) -> MissingMeasures:
        """These measures, and all that the metrics have."""
        pairs = [(score.offset, role) for score in metrics.scores() for role in ("train", "test") if score.of(role)]
        search = self.search or metrics.grid_search is not None
        more = tuple(dict.fromkeys((*self.more, *metrics.more)))
        return MissingMeasures(True, tuple(dict.fromkeys((*self.gamma, *pairs))), search, more)


def is_measured(
    metrics: MetricsPart | None,
    measures: Collection[str],
    more_offsets: Sequence[float] = (),
    offset: float = DEFAULT_OFFSET,
) -> bool:
    """Whether metrics have the numbers that are asked for."""
    return not find_missing(metrics, measures, offset, more_offsets, search=False)


def find_missing(
    metrics: MetricsPart | None, measures: Collection[str], offset: float, more_offsets: Sequence[float], search: bool
) -> MissingMeasures:
    """What the metrics lack."""
    known = metrics or MetricsPart()
    wanted = [(offset, "train"), (offset, "test")] if "gamma" in measures else []
    wanted += [(more, "train") for more in more_offsets if more != offset]
    return MissingMeasures(
        # The error is measured with the first numbers: who has others and none has images without labels.
        svm=known.svm is None and not known.scores(),
        gamma=tuple((delta, role) for delta, role in wanted if known.score(delta, role) is None),
        search=search and known.grid_search is None,
        more=tuple(word for word in measures if word not in ("error", "gamma", *known.more)),
    )
