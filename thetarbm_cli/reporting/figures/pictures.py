"""What the models make of images: reconstructions, and samples of Gibbs chains."""

from __future__ import annotations

import numpy as np

from thetarbm_cli.reporting.figures.context import FigureContext
from thetarbm_cli.reporting.figures.drawing import Drawing
from thetarbm_cli.reporting.figures.style import PAGE, new_figure
from thetarbm_cli.reporting.figures.tiles import IMAGES, show_tiles
from thetarbm_cli.reporting.figures.weights import Fitted, data_of, fitted_models

CLASSES = 10
STEPS = (1, 3, 10, 30, 100, 300, 1000)
# Inches that the names of the rows take.
NAMES = 0.9


def draw_reconstructions(context: FigureContext) -> Drawing:
    """The first test image of each class, and under it what each model makes of it in one pass up and down."""
    fitted = fitted_models(context, context.model_cells())
    images, labels = data_of(context, fitted.models[0].record).test()
    classes, first = np.unique(labels, return_index=True)
    shown = images[first[:CLASSES]]
    tiles = np.stack([shown, *(each.model.reconstruct(shown) for each in fitted.models)])
    figure = new_figure(PAGE, (PAGE - NAMES) / len(shown) * len(tiles) + 0.2, pictures=True)
    names = ["test image", *(_name(each) for each in fitted.models)]
    show_tiles(figure.subplots(), tiles, IMAGES, names, [f"class {label}" for label in classes[:CLASSES]])
    return Drawing(figure, fitted.cells, fitted.gaps)


def draw_samples(context: FigureContext) -> Drawing:
    """One Gibbs chain of each model after 1, 3, … steps, from random hidden states."""
    fitted = fitted_models(context, context.model_cells())
    # A chain is drawn from its seed alone: a longer one passes through the shorter ones.
    tiles = np.stack(
        [
            np.concatenate([each.model.sample(1, gibbs_steps=steps, random_state=0) for steps in STEPS])
            for each in fitted.models
        ]
    )
    figure = new_figure(PAGE, (PAGE - NAMES) / len(STEPS) * len(tiles) + 0.2, pictures=True)
    names = [f"{steps} step{'' if steps == 1 else 's'}" for steps in STEPS]
    show_tiles(figure.subplots(), tiles, IMAGES, [_name(each) for each in fitted.models], names)
    return Drawing(figure, fitted.cells, fitted.gaps)


def _name(fitted: Fitted) -> str:
    """The label of a model; the O-RBM's images are aligned ones."""
    return f"{fitted.cell.label}, aligned" if fitted.cell.model == "orbm" else fitted.cell.label
