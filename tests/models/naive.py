"""Contrastive divergence as one would write it on paper: float64, one image and one slice at a time.

It shares with the package only the random numbers, in the order in which they are drawn.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.models.seeds import generator_of, seed_of

Doubles = NDArray[np.float64]
Parameters = dict[str, Any]


@dataclass
class NaiveTrainer:
    """Updates of a model with given settings.

    Parameters
    ----------
    form : {"shared", "tied", "full", "pooled"}
        One matrix; one matrix, images in its frame and reconstructions that go through the image's; a slice per
        orientation; one matrix and turned images.
    settings : dict
        The estimator's parameters.
    turns : list of (V, V) arrays T_s
    in_frame : bool
        Whether images come rotated back, as T_s'x.
    """

    form: str
    settings: dict[str, Any]
    turns: list[Doubles]
    in_frame: bool = False

    # -- the network: probabilities, means --------------------------------------------------------------------

    def seen(self, parameters: Parameters, x: Doubles, s: int) -> Doubles:
        """What hidden units see of an image."""
        if "log_variance" in parameters:
            return np.array([x[v] / np.exp(self.row(parameters, "log_variance", s)[v]) for v in range(len(x))])
        if "sigma" in parameters:
            return x / parameters["sigma"][0]
        return x

    def row(self, parameters: Parameters, name: str, s: int) -> Doubles:
        value = parameters[name]
        return value[s] if len(value) > 1 else value[0]

    def bias(self, parameters: Parameters, s: int) -> Doubles:
        """c of an image of orientation s, as the images come; one for all lies in the images' own frame."""
        row = self.row(parameters, "visible_bias", s)
        return self.turns[s].T @ row if self.in_frame and self.has_one_bias else row

    @property
    def has_one_bias(self) -> bool:
        return self.settings.get("visible_biases") == "one"

    def hidden_probabilities(self, parameters: Parameters, x: Doubles, s: int) -> Doubles:
        """(K, H), K = 1 or the number of turns."""
        seen = self.seen(parameters, x, s)
        weights, bias = parameters["weights"], parameters["hidden_bias"]
        if self.form != "pooled":
            matrix = weights[s] if self.form == "full" else weights
            return np.array([[1 / (1 + np.exp(-(b + w @ seen))) for b, w in zip(bias, matrix, strict=True)]])
        result = np.empty(bias.shape)
        for j, w in enumerate(weights):
            exponentials = [np.exp(bias[k, j] + w @ turn @ seen) for k, turn in enumerate(self.turns)]
            for k, value in enumerate(exponentials):
                result[k, j] = value / (1 + sum(exponentials))
        return result

    def draw(self, probabilities: Doubles, uniforms: Doubles) -> Doubles:
        """Hidden states (K, H): the first k whose share of [0, 1) reaches beyond the uniform number, or none."""
        result = np.zeros(probabilities.shape)
        for j, number in enumerate(uniforms):
            for k, total in enumerate(np.cumsum(probabilities[:, j])):
                if number < total:
                    result[k, j] = 1
                    break
        return result

    def field(self, parameters: Parameters, hidden: Doubles, s: int) -> Doubles:
        weights = parameters["weights"]
        if self.form == "pooled":
            return sum(turn.T @ (weights.T @ hidden[k]) for k, turn in enumerate(self.turns))
        if self.form == "tied":
            return self.turns[s].T @ (self.turns[s] @ (weights.T @ hidden[0]))
        return (weights[s] if self.form == "full" else weights).T @ hidden[0]

    def mean(self, parameters: Parameters, hidden: Doubles, s: int) -> Doubles:
        field = self.field(parameters, hidden, s)
        if "sigma" in parameters:
            field = field * parameters["sigma"][0]
        total = self.bias(parameters, s) + field
        return 1 / (1 + np.exp(-total)) if self.settings["visible"] == "bernoulli" else total

    # -- learning -----------------------------------------------------------------------------------------------

    def epoch(
        self,
        parameters: Parameters,
        increments: Parameters,
        inputs: Doubles,
        index: NDArray[np.int64] | None,
        epoch: int,
    ) -> None:
        seed, size = self.settings["random_state"], self.settings["batch_size"]
        order = generator_of(seed, "order", epoch).permutation(len(inputs))
        random = np.random.Generator(np.random.Philox(seed_of(seed, "sampling", epoch)))
        errors = []
        for first in range(0, len(inputs), size):
            rows = order[first : first + size]
            if self.settings["drop_last"] and len(rows) < min(size, len(inputs)):
                break
            if index is not None:
                rows = np.array(sorted(rows, key=lambda row: index[row]))
            groups = [0 if index is None else int(index[row]) for row in rows]
            if "sigma" in parameters:
                for x in inputs[rows]:
                    expected = self.mean(parameters, self.hidden_probabilities(parameters, x, 0), 0)
                    errors.append(np.mean((x - expected) ** 2))
            self.update(parameters, increments, inputs[rows], groups, epoch, random)
        if "sigma" in parameters:
            parameters["sigma"][...] = 0.99 * parameters["sigma"] + 0.01 * np.sqrt(np.mean(errors))

    def update(
        self,
        parameters: Parameters,
        increments: Parameters,
        data: Doubles,
        groups: list[int],
        epoch: int,
        random: np.random.Generator,
    ) -> None:
        units = parameters["weights"].shape[-2]
        positive = [self.hidden_probabilities(parameters, x, s) for x, s in zip(data, groups, strict=True)]
        model, negative = data, positive
        for _ in range(self.settings["gibbs_steps"]):
            uniforms = random.random((len(data), units), dtype=np.float32)
            drawn = [self.draw(p, u) for p, u in zip(negative, uniforms, strict=True)]
            model = np.array([self.mean(parameters, h, s) for h, s in zip(drawn, groups, strict=True)])
            if self.settings["visible_sampling"] == "sample":
                model = self.noisy(parameters, model, groups, random)
            negative = [self.hidden_probabilities(parameters, x, s) for x, s in zip(model, groups, strict=True)]
        gradient = self.gradient(parameters, data, positive, model, negative, groups)

        rate = self.settings["learning_rate"] / (1 + self.settings["rate_decay"] * epoch)
        momentum = self.settings["momentum"]
        if self.settings["initial_momentum"] is not None and epoch < self.settings["momentum_epochs"]:
            momentum = self.settings["initial_momentum"]
        gradient["weights"] = gradient["weights"] - self.settings["weight_decay"] * parameters["weights"]
        for name, value in gradient.items():
            increments[name][...] = momentum * increments[name] + rate * value
            parameters[name][...] = parameters[name] + increments[name]

    def noisy(self, parameters: Parameters, mean: Doubles, groups: list[int], random: np.random.Generator) -> Doubles:
        if self.settings["visible"] == "bernoulli":
            return (random.random(mean.shape, dtype=np.float32) < mean).astype(float)
        # Box and Muller: the first half of the uniform numbers are radii, the second half angles.
        pairs = -(-mean.size // 2)
        radii, angles = random.random((2, pairs), dtype=np.float32).astype(float)
        waves = [wave(2 * np.pi * angles) for wave in (np.cos, np.sin)]
        noise = (np.sqrt(-2 * np.log(1 - radii)) * waves).ravel()[: mean.size].reshape(mean.shape)
        if "log_variance" in parameters:
            for i, s in enumerate(groups):
                noise[i] *= np.sqrt(np.exp(self.row(parameters, "log_variance", s)))
        if "sigma" in parameters:
            noise *= parameters["sigma"][0]
        return mean + noise

    def gradient(
        self,
        parameters: Parameters,
        data: Doubles,
        positive: list[Doubles],
        model: Doubles,
        negative: list[Doubles],
        groups: list[int],
    ) -> Parameters:
        """Data minus model averages, and the pull of the sparsity target."""
        count = len(data)
        total = {
            name: np.zeros(parameters[name].shape)
            for name in ("weights", "hidden_bias", "visible_bias", "log_variance")
            if name in parameters
        }
        pull = np.zeros(parameters["weights"].shape[-2])
        if self.settings["sparsity"] is not None:
            activation = sum(p.sum(axis=0) for p in positive) / count
            pull = self.settings["sparsity_weight"] * (self.settings["sparsity"] - activation)
        slope = self.settings["sparsity_form"] == "bias+weights"
        for i, s in enumerate(groups):
            up = positive[i]
            if slope and self.settings.get("sparsity_slope") == "each":
                # The weights see each turn's own slope, every bias of a unit the sum of them.
                slopes = up * (1 - up)
                self.add_outer(total["weights"], pull * slopes / count, self.seen(parameters, data[i], s), s)
                for k in range(len(up)):
                    total["hidden_bias"][k] += pull * sum(slopes) / count
            elif slope:
                # ∂ Σ_k p_k / ∂ drive_k = p_k (1 - Σ_l p_l)
                up = up + pull * up * (1 - up.sum(axis=0))
            for x, hidden, sign in ((data[i], up, 1), (model[i], negative[i], -1)):
                seen = self.seen(parameters, x, s)
                self.add_outer(total["weights"], sign / count * hidden, seen, s)
                total["hidden_bias"] += (sign / count * hidden).reshape(total["hidden_bias"].shape)
            difference = self.seen(parameters, data[i] - model[i], s)
            if self.in_frame and self.has_one_bias:
                difference = self.turns[s] @ difference
            total["visible_bias"][s if len(total["visible_bias"]) > 1 else 0] += difference / count
            if "log_variance" in parameters:
                precision = np.exp(-self.row(parameters, "log_variance", s))
                centre = self.bias(parameters, s)
                for x, hidden, sign in ((data[i], positive[i], 1), (model[i], negative[i], -1)):
                    field = self.field(parameters, hidden, s)
                    value = precision * ((x - centre) ** 2 / 2 - x * field)
                    total["log_variance"][s if len(total["log_variance"]) > 1 else 0] += sign * value / count
        if not slope:
            total["hidden_bias"] = total["hidden_bias"] + pull
        if self.form == "full":
            total["weights"] = self.rotated_into_every_slice(total["weights"])
        return total

    def add_outer(self, gradient: Doubles, hidden: Doubles, seen: Doubles, s: int) -> None:
        """The gradient of the image's own slice."""
        if self.form == "full":
            gradient[s] += np.outer(hidden[0], seen)
        elif self.form == "pooled":
            for k, turn in enumerate(self.turns):
                gradient += np.outer(hidden[k], turn @ seen)
        else:
            gradient += np.outer(hidden[0], seen)

    def rotated_into_every_slice(self, gradients: Doubles) -> Doubles:
        """The paper's double loop: ∇W_k = Σ_s R_{φk-φs}(∇W_s), R_θ(A) = A T_θ' (Eqs. 5–6)."""
        count = len(gradients)
        result = np.zeros(gradients.shape)
        for s in range(count):
            for k in range(count):
                result[k] += gradients[s] @ self.turns[(k - s) % count].T
        return result
