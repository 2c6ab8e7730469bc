"""Names given on the page are stored with author and history, and never replaced by accident."""

import threading

import httpx
import numpy as np
import pytest

from nonneg import Features
from nonneg.features import journal

NAME = "/api/sets/0/feature/1/name"


def test_a_name_is_stored_with_its_author_and_history(client, folder):
    asks = client(folder)
    asks.put(NAME, json={"name": " first ", "author": "Ada", "replaces": ""})
    named = asks.put(NAME, json={"name": "second", "author": "Bob", "replaces": "first"}).json()
    assert [(entry["name"], entry["author"]) for entry in named["history"]] == [("second", "Bob"), ("first", "Ada")]
    assert Features.load(folder).names == {1: "second"}
    assert asks.get("/api/sets/0/feature/1").json()["row"]["name"] == "second"
    asks.put(NAME, json={"name": "", "author": "Ada", "replaces": "second"})
    assert Features.load(folder).names == {}


def test_a_name_changed_by_somebody_else_is_not_replaced(client, folder):
    asks = client(folder)
    assert asks.put(NAME, json={"name": "mine", "replaces": ""}).status_code == 200
    late = asks.put(NAME, json={"name": "yours", "replaces": ""})
    assert late.status_code == 409 and "replaces" in late.json()["detail"]
    assert Features.load(folder).names == {1: "mine"}


def test_concurrent_writers_lose_no_names(folder, serve):
    address = serve(folder)

    def name(writer: int) -> None:
        with httpx.Client(base_url=address) as browser:
            for turn in range(5):
                answer = browser.put(
                    f"/api/sets/0/feature/{writer % 4}/name", json={"name": f"{writer}-{turn}", "author": str(writer)}
                )
                assert answer.status_code == 200

    writers = [threading.Thread(target=name, args=(writer,)) for writer in range(6)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    names = [entry.name for entry in journal(folder).history()]
    assert sorted(names) == sorted(f"{writer}-{turn}" for writer in range(6) for turn in range(5))


def test_names_written_by_another_process_appear(client, folder):
    asks = client(folder)
    assert asks.get("/api/sets/0/feature/1").json()["row"]["name"] is None
    journal(folder).record({1: "elsewhere"}, "Eve")
    assert asks.get("/api/sets/0/feature/1").json()["row"]["name"] == "elsewhere"


def test_features_in_memory_cannot_be_named(client):
    asks = client(Features(np.eye(3, dtype=np.float32)))
    answer = asks.put(NAME, json={"name": "x"})
    assert answer.status_code == 422 and "not in a folder" in answer.json()["detail"]


@pytest.mark.parametrize(
    "body",
    [
        {"name": "x" * 501},
        {"name": "x", "author": "y" * 101},
        {"name": "x", "unknown": 1},
        {"name": 3},
        {"name": "two\nlines"},
        {"name": "\u200b"},
        {"name": "\u202e"},
        {"name": "x\0y"},
        {"name": "x", "author": "a\nb"},
        [],
    ],
)
def test_invalid_names_are_rejected(client, folder, body):
    assert client(folder).put(NAME, json=body).status_code == 422


def test_removing_a_missing_name_is_not_recorded(client, folder):
    asks = client(folder)
    assert asks.put(NAME, json={"name": "", "author": "a", "replaces": ""}).status_code == 200
    assert asks.get("/api/sets/0/feature/1").json()["history"] == []


def test_the_replaced_name_must_be_the_current_one(folder):
    names = journal(folder)
    assert names.record({1: "first"}, "a", replaces={1: ""})
    assert not names.record({1: "second"}, "b", replaces={1: ""})
    assert names.current() == {1: "first"} and names.record({1: "second"}, "b", replaces={1: "first"})


def test_a_name_is_scored_by_labels_that_share_a_word_with_it(client, tmp_path):
    codes = np.zeros((80, 2), np.float32)
    codes[:40, 0] = codes[40:, 1] = 1
    labels = (np.arange(80) >= 40).astype(int)
    asks = client(Features(codes, labels=labels, label_names=("airplane", "frog")).save(tmp_path / "b.features"))
    for name, score in (("Planes in the sky", 1.0), ("iPhones", None)):
        path = "/api/sets/0/feature/0/name"
        found = asks.put(path, json={"name": name, "author": "", "replaces": None}).json()["name_score"]
        assert (found and found["score"]) == score


def test_a_new_name_appears_on_every_page(client, folder):
    asks = client(folder, folder)
    pages = (
        "/api/overview",
        "/api/comparison",
        "/api/sets/0/features",
        "/api/sets/0/sample/3",
        "/api/sets/1/feature/1",
    )
    for path in pages:
        assert "newly given" not in asks.get(path).text
    asks.put(NAME, json={"name": "newly given", "replaces": ""})
    for path in pages:
        assert "newly given" in asks.get(path).text, path
