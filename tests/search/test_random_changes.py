"""Random sequences of changes: an index always equals a dictionary of rows."""

import random

import numpy as np
import pytest

from nonneg import Features
from nonneg.search import Index, Where, verify

FEATURES = 12


class Model:
    """What an index should hold: for each id, its row, code and label."""

    def __init__(self):
        self.rows, self.next_row = {}, 0

    def add(self, ids, codes, labels):
        for id, code, label in zip(ids, codes, labels, strict=True):
            self.rows[id] = (self.next_row, code, label)
            self.next_row += 1

    def best(self, query, k, label, without):
        """Return the score and the id of each hit; of equal scores, the lower row is first."""
        scores = []
        for id, (row, code, own) in self.rows.items():
            score = float(query.astype(np.float64) @ code.astype(np.float64))
            if score > 0 and label in (None, own) and not code[list(without)].any():
                scores.append((-score, row, id))
        return [(-score, id) for score, _, id in sorted(scores)[:k]]


def drawn_codes(rng, rows):
    """Small whole numbers: sums are exact in any order, and ties are frequent."""
    return np.array([[rng.choice((0, 0, 0, 1, 2, 3)) for _ in range(FEATURES)] for _ in range(rows)], np.float32)


def check(index, model, rng):
    assert len(index) == len(model.rows)
    for id, (row, code, label) in rng.sample(sorted(model.rows.items()), min(5, len(model.rows))):
        assert index.row(id) == row and index.ids([row]) == [id]
        assert index.label(row) == (None if label < 0 else str(label))
        np.testing.assert_array_equal(index.code(row), code)
    query = drawn_codes(rng, 1)[0]
    k, label = rng.choice((1, 5, 1000)), rng.choice((None, -1, 0, 1))
    without = tuple(rng.sample(range(FEATURES), rng.choice((0, 0, 1, 2))))
    found = index.query(query, k, Where(labels=None if label is None else (label,), without=without))
    ids, wanted = index.ids(found.rows[0]), model.best(query, k, label, without)
    if index.engine == "milvus":  # of several samples with the last score, Milvus chooses
        assert found.scores[0][: len(ids)].tolist() == [score for score, _ in wanted]
        last = wanted[-1][0] if len(wanted) == k else 0
        ids, wanted = ids[: sum(score > last for score, _ in wanted)], [hit for hit in wanted if hit[0] > last]
    assert ids == [id for _, id in wanted]


def hunt(seed, steps, folder, engine="exact"):
    rng, model = random.Random(seed), Model()
    free = [str(number) for number in range(40)] + [f"name {number}" for number in range(20)]
    has_ids, has_labels = rng.random() < 0.7, rng.random() < 0.7

    def draw(rows):
        unused = [id for id in free if id not in model.rows]
        ids = rng.sample(unused, min(rows, len(unused)))
        return ids, drawn_codes(rng, len(ids)), [rng.choice((-1, 0, 1)) for _ in ids]

    ids, codes, labels = draw(rng.randint(1, 12))
    ids = ids if has_ids else [str(row) for row in range(len(ids))]
    labels = labels if has_labels else [-1] * len(ids)
    model.add(ids, codes, labels)
    built = Features(codes, ids=ids if has_ids else None, labels=labels if has_labels else None)
    index = Index.build(built, engine, cosine=False)
    is_saved = False
    for _ in range(steps):
        action = rng.choice(("add", "add", "delete", "again", "save", "reopen"))
        if action == "add":
            ids, codes, labels = draw(rng.choice((1, 1, 2, 3, 9)))
            if ids:
                index.add(codes, ids, labels)
                model.add(ids, codes, labels)
        elif action in ("delete", "again") and model.rows:
            gone = rng.sample(sorted(model.rows), min(rng.choice((1, 2, 5)), len(model.rows)))
            index.delete(gone)
            for id in gone:
                del model.rows[id]
            if action == "again":  # the same ids return at once
                codes, labels = drawn_codes(rng, len(gone)), [rng.choice((-1, 0, 1)) for _ in gone]
                index.add(codes, gone, labels)
                model.add(gone, codes, labels)
        elif action == "save":
            index.save(folder, overwrite=True)
            is_saved = True
        elif action == "reopen" and is_saved:
            index.save(folder, overwrite=True)
            index.close()
            verify(folder)
            index = Index.open(folder)
        check(index, model, rng)
    index.close()


def test_an_id_that_is_deleted_and_added_again_survives_a_merge():
    index = Index.build(Features(np.eye(8, dtype=np.float32), ids=list("abcdefgh")))
    index.delete(["a"])
    index.add(np.eye(8)[:1], ["a"])
    index.add(np.eye(8)[:3], ["x", "y", "z"])
    assert len(index._table.parts) == 1
    assert index.row("a") == 8 and index.ids([8]) == ["a"] and len(index) == 11
    index.delete(["a"])
    assert index.ids(index.query(np.ones(8), k=20).rows[0]).count("a") == 0


@pytest.mark.parametrize("seed", range(12))
def test_an_index_equals_a_dictionary_after_random_changes(seed, tmp_path):
    hunt(seed, 30, tmp_path / "x.index")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(13))
def test_an_index_equals_a_dictionary_after_ten_thousand_random_changes(part, tmp_path):
    for seed in range(100 + 10 * part, 110 + 10 * part):
        hunt(seed, 80, tmp_path / f"{seed}.index")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_milvus_equals_a_dictionary_after_random_changes(seed, tmp_path):
    for module in ("pymilvus", "milvus_lite"):
        pytest.importorskip(module, reason="the extra milvus is not installed")
    hunt(seed, 25, tmp_path / "x.index", "milvus")
