"""Trainings side by side, as `privbench bench` times them, on the CPU and on the second device."""

from functools import partial

import torch

import methods
from harness.checks.method_contract import make_records, problem_on, quick_params
from harness.jobs.bench.interleaving import Player, play, weigh
from tests.second_device.fixtures import on_both


@on_both
def test_players_take_turns_and_are_weighed(device: torch.device) -> None:
    players = []
    for name in ("sgd", "dp-sgd"):
        method = methods.family.get(name)
        training = partial(
            method.train, make_records(40).to(device), problem_on(device), quick_params(method, 40)
        )
        players.append(Player(name, training, device, threads=1, seed=0))
    try:
        turns = play(players, warm_up=1, least=4, most=4, seconds=0.0, seed=0)
        weights = [weigh(player, device, 4, 3) for player in players]
    finally:
        for player in players:
            player.leave()
    assert [player.error for player in players] == [None, None]
    assert sorted(turn.player for turn in turns) == [0] * 4 + [1] * 4
    assert all(turn.lap.wall > 0 for turn in turns)
    assert all({"drawing", "gradients", "update"} <= turn.lap.clocks.keys() for turn in turns)
    assert all(len(each) == 3 for each in weights)
