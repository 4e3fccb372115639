"""Which weights belong to which layer."""

from opacus.layers import DPLSTM
from torch import nn

from methods.gradients.layers import tied_weights, trainable_layers


def test_a_layer_used_twice_is_one_layer_with_its_trainable_weights() -> None:
    layer = nn.Linear(2, 2)
    layer.bias.requires_grad_(False)
    (found,) = trainable_layers(nn.Sequential(layer, nn.ReLU(), layer))
    assert (found.name, list(found.weights)) == ("0", ["weight"])
    assert str(found) == "layer '0' (Linear)"


def test_a_single_layer_is_a_model() -> None:
    (found,) = trainable_layers(nn.Linear(2, 2))
    assert (found.name, list(found.weights)) == ("", ["weight", "bias"])
    assert tied_weights(nn.Linear(2, 2)) == []


def test_names_on_a_module_around_the_layer_do_not_tie_it() -> None:
    model = nn.Sequential(DPLSTM(3, 4), nn.Linear(4, 2))
    assert tied_weights(model) == []
    assert [type(layer.module).__name__ for layer in trainable_layers(model)] == [
        "RNNLinear",
        "RNNLinear",
        "Linear",
    ]
    weights = [weight for layer in trainable_layers(model) for weight in layer.weights.values()]
    assert set(weights) == set(model.parameters())


def test_shared_weights_are_named_at_every_place() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    assert tied_weights(model) == ["'0.weight' = '1.weight'"]
    assert [list(layer.weights) for layer in trainable_layers(model)] == [["weight", "bias"], ["bias"]]
