"""Views of texts depend only on (seed, epoch, sample, view), and keep what they must."""

import numpy as np
import pytest
import torch

from nonneg.errors import InputError
from nonneg.modalities.texts import TextRows, Texts, Tokenizer, ViewConfig, token_views
from nonneg.modalities.texts._tokenizer import Tokens

ALL = ViewConfig(crop_least=0.5, delete=0.3, mask=0.3)


def texts(rows=40, longest=20, seed=0):
    """Tokens 10, 11, …, so that a view shows which ones it kept."""
    lengths = np.random.default_rng(seed).integers(1, longest + 1, rows)
    tokens = np.where(np.arange(longest) < lengths[:, None], 10 + np.arange(longest), -1)
    return torch.from_numpy(tokens), torch.arange(rows)


def drawn(tokens, samples, config, view=0, seed=0, epoch=0, **rest):
    return token_views(tokens, samples, torch.full_like(samples, view), config, seed, epoch, **rest)


def lengths(tokens):
    return (tokens >= 0).sum(1)


def test_a_view_does_not_depend_on_the_batch_or_on_the_longest_text():
    tokens, samples = texts()
    whole = drawn(tokens, samples, ALL, mask=1)
    part = drawn(tokens[7:9], samples[7:9], ALL, mask=1)
    assert torch.equal(whole[7:9], part)
    wider = torch.nn.functional.pad(tokens, (0, 5), value=-1)
    assert torch.equal(drawn(wider, samples, ALL, mask=1)[:, :20], whole)


@pytest.mark.parametrize("change", [{"seed": 1}, {"epoch": 1}, {"view": 1}])
def test_a_view_depends_on_seed_epoch_and_view(change):
    tokens, samples = texts()
    assert not torch.equal(drawn(tokens, samples, ALL, mask=1), drawn(tokens, samples, ALL, mask=1, **change))


def test_kept_tokens_stay_in_order_and_at_least_one_stays():
    tokens, samples = texts(rows=500)
    view = drawn(tokens, samples, ViewConfig(crop_least=0.1, delete=0.9))
    assert lengths(view).min() == 1
    for row in view:
        kept = row[row >= 0]
        assert (row[: len(kept)] >= 0).all() and (kept.diff() > 0).all()


def test_a_crop_is_a_run_of_neighbours_of_at_least_the_given_share():
    tokens, samples = texts(rows=500)
    view = drawn(tokens, samples, ViewConfig(crop_least=0.5))
    for before, after in zip(tokens, view, strict=True):
        kept = after[after >= 0]
        assert (kept.diff() == 1).all() and len(kept) >= (before >= 0).sum() / 2
    starts = view[lengths(tokens) == 20][:, 0]
    assert starts.min() == 10 and starts.max() > 15


def test_shares_of_deleted_and_hidden_tokens_are_as_given():
    tokens, samples = torch.full((1000, 20), 5), torch.arange(1000)
    assert lengths(drawn(tokens, samples, ViewConfig(delete=0.3))).float().mean() / 20 == pytest.approx(0.7, abs=0.01)
    hidden = drawn(tokens, samples, ViewConfig(mask=0.3), mask=1)
    assert (hidden == 1).float().mean() == pytest.approx(0.3, abs=0.01) and (hidden >= 0).all()


def test_views_can_keep_different_shares_of_their_tokens():
    tokens, samples = torch.arange(20).repeat(1000, 1), torch.arange(1000)
    config = ViewConfig(delete=0.1, delete_most=0.9)
    kept = lengths(drawn(tokens, samples, config)).float() / 20
    assert kept.mean() == pytest.approx(0.5, abs=0.02) and kept.min() < 0.15 and kept.max() > 0.95
    assert torch.equal(drawn(tokens, samples, config)[3:4], drawn(tokens[3:4], samples[3:4], config))


def test_special_tokens_are_always_kept():
    tokens = torch.tensor([[2, 10, 11, 12, 3, -1]]).repeat(200, 1)
    view = drawn(tokens, torch.arange(200), ViewConfig(crop_least=0.2, delete=0.8, mask=0.5), special=(2, 3), mask=1)
    assert (view[:, 0] == 2).all() and ((view == 3).sum(1) == 1).all() and (lengths(view) >= 3).all()


def test_without_changes_a_view_is_the_text():
    tokens, samples = texts()
    assert torch.equal(drawn(tokens, samples, ViewConfig()), tokens)


@pytest.mark.parametrize("field", ["crop_least", "delete", "mask"])
def test_a_share_out_of_range_is_an_error_that_names_it(field):
    with pytest.raises(InputError, match=f"views.{field} is 1.5"):
        ViewConfig(**{field: 1.5})


# Dropout


def test_the_masks_of_dropout_depend_on_the_sample_and_the_view_alone():
    tokens, samples = texts(rows=8)
    modality = Texts(width=32, heads=2, dropout=0.25)
    whole = modality.draw_views(tokens, samples, 0, 3, 2, torch.float32)["dropout"].view(2, 8, 5, 32)
    part = modality.draw_views(tokens[5:], samples[5:], 0, 3, 2, torch.float32)["dropout"].view(2, 3, 5, 32)
    assert torch.equal(whole[:, 5:], part)
    assert not torch.equal(whole[0], whole[1])
    assert whole.unique().tolist() == pytest.approx([0.0, 4 / 3])


# Partners


def rows_with(groups=None, pairs=None):
    tokens = Tokens(np.arange(6, dtype=np.int32), np.arange(7), 0)
    other = None if pairs is None else Tokens(100 + np.arange(6, dtype=np.int32), np.arange(7), 0)
    return TextRows(list("abcdef"), pairs, groups, tokens=tokens, pair_tokens=other)


def test_the_second_view_of_a_pair_is_the_partner():
    views = rows_with(pairs=list("uvwxyz")).views(np.array([4, 1]), 0, 0, 2)
    assert views[..., 0].tolist() == [[4, 104], [1, 101]]


def test_the_second_view_in_a_group_is_another_member_and_changes_with_the_epoch():
    rows = rows_with(groups=np.array([7, 5, 7, 7, -1, -1]))
    drawn = np.stack([rows.views(np.arange(6), 0, epoch, 2)[:, :, 0] for epoch in range(40)])
    assert (drawn[:, :, 0] == np.arange(6)).all()
    assert set(drawn[:, 0, 1]) == {2, 3} and set(drawn[:, 2, 1]) == {0, 3}
    assert set(drawn[:, 1, 1]) == {1} and set(drawn[:, 4, 1]) == {4} and set(drawn[:, 5, 1]) == {5}
    assert (rows.views(np.array([3]), 0, 9, 2)[:, 1, 0] == drawn[9, 3, 1]).all()


def test_texts_of_a_group_are_never_negatives_of_each_other():
    numbers = rows_with(groups=np.array([7, 5, 7, 7, -1, -1])).related
    assert numbers[0] == numbers[2] == numbers[3] and len(set(numbers)) == 4


def test_texts_that_share_a_partner_are_never_negatives_of_each_other():
    # b and d share a partner, and f's partner is b itself.
    numbers = rows_with(pairs=["u", "v", "w", "v", "y", "b"]).related
    assert numbers[1] == numbers[3] == numbers[5] and len(set(numbers)) == 4


def test_a_long_chain_of_partners_keeps_its_negatives():
    texts = [f"sentence {i}" for i in range(300)]
    numbers = TextRows([*texts[1:], "sentence 1"], [*texts[:-1], "sentence 9"]).related
    assert len(np.unique(numbers)) == 299
    assert numbers[0] == numbers[-1]  # the same text


def test_one_group_of_everything_is_an_error():
    with pytest.raises(InputError, match="groups"):
        _ = rows_with(groups=np.zeros(6, np.int64)).related


def test_tokenizers_are_read_from_json_alone():
    pytest.importorskip("tokenizers")
    with pytest.raises(InputError, match="tokenizer cannot be read"):
        Tokenizer("{}")


def test_a_probability_below_that_of_all_views_is_an_error():
    with pytest.raises(InputError, match=r"views\.delete_most"):
        ViewConfig(delete=0.6, delete_most=0.5)
