from pathlib import Path

import torch
import torch.distributed as dist

from nonneg import losses

SCRIPT = Path(__file__).parent / "two_processes.py"


def test_two_processes_equal_one_with_the_joint_batch(torchrun):
    assert torchrun(SCRIPT).stdout.count("rank 1:") == 14


def test_without_a_group_nothing_is_sent_even_if_one_is_initialised():
    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        # A group of one process gives the local loss; None must not call the collectives at all.
        z1, z2 = torch.rand(4, 3), torch.rand(4, 3)
        torch.testing.assert_close(losses.info_nce(z1, z2, group=dist.group.WORLD), losses.info_nce(z1, z2))
        calls = []
        original = dist.all_gather, dist.all_reduce
        dist.all_gather = dist.all_reduce = lambda *a, **k: calls.append(a)
        try:
            losses.info_nce(z1, z2)
            losses.spectral(z1, z2)
            losses.barlow_twins(z1, z2)
            losses.vicreg(z1, z2)
            losses.supervised.sup_con(z1, torch.tensor([0, 0, 1, 1]))
        finally:
            dist.all_gather, dist.all_reduce = original
        assert not calls
    finally:
        dist.destroy_process_group()
