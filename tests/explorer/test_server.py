"""The server answers its own page and rejects other requests."""

import contextlib
import io
import json
import shutil
import struct
import sys
import threading
import time
import types
import zlib
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
from PIL import Image

from nonneg import Features, InputError, NonNegativeEmbedding
from nonneg.explorer import Page, explore, open_explorer
from nonneg.features import journal
from tests.explorer.conftest import HOSTILE, picture

NAME = "/api/sets/0/feature/1/name"
EMBEDDING = NonNegativeEmbedding(12, 3, max_iter=60, batch_size=64, random_state=0)


def test_every_answer_has_security_headers(client, folder):
    asks = client(folder)
    for path in ("/", "/api/overview", "/static/app.js", "/media/0/3", "/feature/99999", "/nowhere"):
        headers = asks.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"


def test_images_are_served_by_row_with_their_content_type(client, folder):
    asks = client(folder)
    answer = asks.get("/media/0/7")
    assert answer.content == picture(7) and answer.headers["content-type"] == "image/png"
    for wrong in ("/media/0/30", "/media/0/-1", "/media/1/0", "/media/0/..%2f..%2fetc%2fpasswd", "/media/0/a"):
        assert asks.get(wrong).status_code in (404, 422)


def test_pixels_are_served_as_png(client):
    pixels = np.random.default_rng(0).integers(0, 256, (3, 5, 4, 3), np.uint8)
    asks = client(Features(np.eye(3, dtype=np.float32), pixels=pixels))
    assert asks.get("/api/overview").json()["sets"][0]["kind"] == "images"
    assert asks.get("/api/sets/0/sample/2").json()["sample"]["has_picture"]
    answer = asks.get("/media/0/2")
    assert answer.headers["content-type"] == "image/png"
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(answer.content))), pixels[2])


def test_media_other_than_images_is_not_served(client):
    features = Features(np.eye(2, dtype=np.float32), media=[b"<svg onload=alert(1)>", b"<script>1</script>"])
    assert client(features).get("/media/0/0").status_code == 404


def test_files_outside_the_static_folder_are_not_served(client, folder):
    asks = client(folder)
    for path in ("/static/../_server.py", "/static/%2e%2e/_server.py", "/static//etc/passwd"):
        assert asks.get(path).status_code == 404


def test_a_mistyped_address_is_answered_with_the_page(client, folder):
    asks = client(folder)
    for path in ("/foo", "/features/3/4"):
        answer = asks.get(path)
        assert answer.status_code == 404 and answer.text == asks.get("/").text
    for path in ("/api/foo", "/api/sets/0/search", "/static/foo.js", "/media/foo"):
        answer = asks.get(path)
        assert answer.status_code in (404, 405) and answer.json()["detail"]
    assert asks.post("/foo").headers["content-type"] == "application/json"


def test_documentation_pages_of_fastapi_are_disabled(client, folder):
    assert client(folder).get("/docs").status_code == client(folder).get("/redoc").status_code == 404


def test_openapi_describes_every_answer(client, folder):
    described = client(folder).get("/openapi.json").json()
    assert "FeaturePage" in described["components"]["schemas"]
    for path, methods in described["paths"].items():
        for call in methods.values():
            assert call["description"], path
            if path.startswith("/api/"):
                assert "$ref" in call["responses"]["200"]["content"]["application/json"]["schema"], path


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "0.0.0.0", "192.168.0.1", ""])
def test_requests_for_other_hosts_are_rejected(client, folder, host):
    assert client(folder).get("/api/overview", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:1", "[::1]:8765", "LOCALHOST"])
def test_requests_for_own_hosts_are_answered(client, folder, host):
    assert client(folder).get("/api/overview", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_cross_site_writes_are_rejected(client, folder, headers):
    asks = client(folder)
    assert asks.put(NAME, json={"name": "x"}, headers=headers).status_code == 403
    assert asks.post("/api/sets/0/search", json={}, headers=headers).status_code == 403
    assert not journal(folder).current()


def test_read_only_rejects_names_and_allows_searches(client, folder):
    asks = client(folder, read_only=True)
    assert asks.put(NAME, json={"name": "x"}).status_code == 403
    assert asks.post("/api/sets/0/search", json={"features": [{"feature": 1}]}).status_code == 422
    query = {"features": [{"feature": 1, "weight": 1}]}
    assert asks.post("/api/sets/0/search", json=query).status_code == 200
    assert not asks.get("/api/overview").json()["sets"][0]["can_name"]
    assert not journal(folder).current()


def test_a_public_host_requires_the_token_once_and_then_a_cookie(folder):
    with Page(open_explorer([folder]), host="0.0.0.0", port=0) as page:
        address, token = page.url.split("?token=")
        asks = httpx.Client(base_url=address, headers={"Host": "10.0.0.5:8765"})
        assert asks.get("/").status_code == asks.get("/media/0/1").status_code == 401
        assert asks.get("/?token=wrong").status_code == 401
        assert asks.put(NAME, json={"name": "x"}).status_code == 401
        assert asks.get(f"/?token={token}", headers={"Host": "evil.example"}).status_code == 421
        answer = asks.get(f"/?token={token}")
        cookie = answer.headers["set-cookie"]
        assert answer.status_code == 200 and "HttpOnly" in cookie and "SameSite=Strict" in cookie
        assert asks.get("/api/overview", headers={"Cookie": cookie.split(";")[0]}).status_code == 200
        asks.close()


def test_explore_prints_an_address_with_a_token_for_a_public_host(folder):
    lines = []
    page = explore(folder, host="0.0.0.0", port=0, block=False, announce=lines.append)
    try:
        address = lines[0].split()[2].replace("0.0.0.0", "127.0.0.1")
        assert "?token=" in address and page.url in lines[0]
        assert httpx.get(address).status_code == 200
        assert httpx.get(address.split("?")[0]).status_code == 401
    finally:
        page.close()


def test_a_port_in_use_is_named_in_the_error(folder):
    page = explore(folder, port=0, block=False, announce=lambda _: None)
    port = int(page.url.rsplit(":", 1)[1].strip("/"))
    try:
        with pytest.raises(InputError, match=rf"127\.0\.0\.1, port {port}"):
            explore(folder, port=port, block=False)
    finally:
        page.close()


def test_hostile_strings_are_returned_as_data(client, hostile):
    asks = client(hostile)
    page = asks.get("/api/sets/0/feature/0")
    assert page.headers["content-type"] == "application/json"
    assert page.json()["row"]["name"] == HOSTILE[0]
    assert {row["name"] for row in asks.get("/api/sets/0/features").json()["rows"]} == {*HOSTILE, None}
    sample = asks.get("/api/sets/0/sample/3").json()
    assert sample["sample"]["label"] == HOSTILE[3] and len(sample["sample"]["excerpt"]) < 300


@pytest.mark.parametrize(
    "path",
    [
        "/api/sets/0/feature/4",
        "/api/sets/0/feature/-1",
        "/api/sets/9/features",
        "/api/sets/0/sample/30",
        "/api/sets/0/sample/0?off=9",
    ],
)
def test_a_missing_feature_set_or_sample_is_an_error(client, folder, path):
    answer = client(folder).get(path)
    assert answer.status_code == 422 and "expected" in answer.json()["detail"]


def test_an_image_is_encoded_like_the_features(client, digits):
    asks = client(digits / "ncl")
    features = Features.load(digits / "ncl.features")
    answer = asks.post("/api/sets/0/encode", content=features.media(5))
    assert answer.status_code == 200
    best = answer.json()["neighbours"][0]
    assert best["sample"]["row"] == 5 and best["score"] == pytest.approx(1, abs=1e-4)
    parts = {part["caption"]["feature"]: part["activation"] for part in answer.json()["parts"]}
    rows = np.asarray(features.codes[[5]].todense()).ravel()
    assert parts == pytest.approx({int(i): float(rows[i]) for i in np.flatnonzero(rows)}, rel=1e-3, abs=1e-4)


def bomb(kind: bytes) -> bytes:
    """A small PNG image with a chunk of 20 megabytes, compressed."""
    content = kind + b"name\0\0" + zlib.compress(bytes(20_000_000))
    chunk = struct.pack(">I", len(content) - 4) + content + struct.pack(">I", zlib.crc32(content))
    return picture(1)[:33] + chunk + picture(1)[33:]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"GIF89a",
        b"\x89PNG\r\n\x1a\n broken",
        b"\xff\xd8\xff" + bytes(100),
        pytest.param(bomb(b"zTXt"), id="text bomb"),
        pytest.param(bomb(b"iCCP"), id="profile bomb"),
    ],
)
def test_an_unreadable_image_is_an_error(client, digits, content):
    answer = client(digits / "ncl").post("/api/sets/0/encode", content=content)
    assert answer.status_code == 422 and "image" in answer.json()["detail"]


def test_features_are_opened_with_the_run_that_they_name_beside_them(client, own_digits):
    named = Features.load(own_digits / "ncl.features").with_provenance({"run": "ncl"})
    asks = client(named.save(own_digits / "named.features"))
    assert asks.get("/api/overview").json()["sets"][0]["can_encode"] == "image"
    assert asks.post("/api/sets/0/encode", content=picture(1)).status_code == 200


def test_features_without_a_run_cannot_encode(client, digits):
    asks = client(digits / "ncl.features")
    assert asks.post("/api/sets/0/encode", content=picture(1)).status_code == 422
    assert not asks.get("/api/overview").json()["sets"][0]["can_encode"]


def test_a_folder_without_features_is_an_error(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="neither features nor a run"):
        open_explorer([tmp_path / "empty"])


def test_a_file_of_vectors_can_be_explored(client, tmp_path):
    np.save(tmp_path / "vectors.npy", np.random.default_rng(0).random((20, 5), np.float32))
    answer = client(tmp_path / "vectors.npy").get("/api/overview")
    assert json.loads(answer.text)["sets"][0]["name"] == "vectors.npy"


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    """A conversion of vectors from three clusters, with a glass-box classifier."""
    from nonneg.convert import convert_file

    folder = tmp_path_factory.mktemp("converted")
    rng = np.random.default_rng(0)
    kinds = np.arange(120) % 3
    vectors = (rng.normal(size=(3, 12))[kinds] + 0.2 * rng.normal(size=(120, 12))).astype(np.float32)
    np.savez(folder / "v.npz", x=vectors, kind=np.array(["ant", "bee", "cow"])[kinds])
    options = {"labels": f"{folder}/v.npz:kind", "embedding": EMBEDDING, "classify": True, "progress": False}
    return convert_file(f"{folder}/v.npz:x", folder / "run", **options), vectors


def test_a_glass_box_predicts_with_and_without_features(client, converted):
    made, _ = converted
    asks = client(made.run)
    whole = asks.get("/api/sets/0/sample/1").json()["prediction"]
    assert whole["label"] == "bee" and whole["probability"] > 0.5
    evidence = [each["caption"]["feature"] for each in whole["evidence"]]
    without = asks.get("/api/sets/0/sample/1", params={"off": evidence}).json()["prediction"]
    assert without["score"] < whole["score"] and without["probability"] < whole["probability"]
    added = sum(each["value"] for each in whole["evidence"])
    assert whole["score"] == pytest.approx(whole["intercept"] + added, abs=1e-6)  # at most three are active
    assert client(made.features).get("/api/sets/0/sample/1").json()["prediction"] is None


@pytest.fixture
def sentences(converted, monkeypatch):
    """A stand-in for sentence-transformers: a text is the number of a row; encoding waits until `ready` is set."""
    ready = threading.Event()
    ready.set()

    class SentenceTransformer:
        def __init__(self, name):
            if name != "rows":
                raise OSError("no such model")

        def encode(self, texts, show_progress_bar):
            ready.wait(60)
            return np.stack([converted[1][int(text)] for text in texts])

    library = types.ModuleType("sentence_transformers")
    library.SentenceTransformer = SentenceTransformer
    monkeypatch.setitem(sys.modules, "sentence_transformers", library)
    return ready


def test_other_requests_are_answered_while_many_wait_for_a_slow_model(converted, sentences):
    sentences.clear()
    with Page(open_explorer([converted[0].run], "rows"), port=0) as page, ThreadPoolExecutor(60) as pool:
        path = f"{page.url}api/sets/0/encode-text"
        waiting = [pool.submit(httpx.post, path, json={"text": "7"}, timeout=60) for _ in range(60)]
        try:
            with httpx.Client(base_url=page.url, timeout=20) as asks:
                for _ in range(20):  # until all of them have arrived
                    assert asks.get("/api/sets/0/sample/7").status_code == 200
                    assert asks.get("/static/app.js").status_code == 200
                    time.sleep(0.05)
        finally:
            sentences.set()
        assert {each.result().status_code for each in waiting} == {200}


def test_a_text_is_encoded_by_its_sentence_model_and_the_run(converted, sentences):
    made, _ = converted
    with Page(open_explorer([made.run], "rows"), port=0) as page, httpx.Client(base_url=page.url) as asks:
        assert asks.get("/api/overview").json()["sets"][0]["can_encode"] == "text"
        found = asks.post("/api/sets/0/encode-text", json={"text": "7"}).json()
        known = asks.get("/api/sets/0/sample/7").json()["parts"]
        assert [part["caption"]["feature"] for part in found["parts"]] == [p["caption"]["feature"] for p in known]
        assert found["neighbours"][0]["sample"]["row"] == 7
        assert asks.post("/api/sets/0/encode-text", json={"text": ""}).status_code == 422
    with Page(open_explorer([made.run], "other"), port=0) as page, httpx.Client(base_url=page.url) as asks:
        answer = asks.post("/api/sets/0/encode-text", json={"text": "7"})
        assert answer.status_code == 422 and "sentence model 'other' cannot be used: no such model" in answer.text
    with Page(open_explorer([made.run]), port=0) as page, httpx.Client(base_url=page.url) as asks:
        assert "--sentence-model" in asks.post("/api/sets/0/encode-text", json={"text": "7"}).text
    beside = open_explorer([made.features], "rows")  # the run that they name is beside them
    assert beside.encode(0, "7").neighbours[0].sample.row == 7
    with pytest.raises(InputError, match="expected a run of nonneg convert with it"):
        open_explorer([Features.load(made.features)], "rows")


def test_a_set_opened_from_within_its_folder_has_the_folders_name(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert [each.name for each in open_explorer(["."]).overview().sets] == ["a"]
    names = [each.name for each in open_explorer([".", folder]).overview().sets]
    assert len(set(names)) == 2 and all("a" in name for name in names)


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Host": "["}, 421), ({"Origin": "http://["}, 403), ({"Sec-Fetch-Site": "cross-site"}, 403)],
)
def test_malformed_and_cross_site_requests_are_rejected(client, folder, headers, status):
    asks = client(folder)
    answer = asks.post("/api/sets/0/search", json={}, headers=headers)
    assert answer.status_code == status and answer.headers["x-content-type-options"] == "nosniff"
    if "Sec-Fetch-Site" in headers:
        assert asks.get("/api/overview", headers=headers).status_code == 403
        assert asks.get("/", headers=headers).status_code == 200  # links from other sites are allowed


def test_a_request_that_is_too_long_is_rejected_without_echoing_it(client, folder):
    asks = client(folder)
    assert asks.post("/api/sets/0/search", content=b"[" * 2_000_000).status_code == 413

    def in_pieces():
        for _ in range(30):
            yield b"[" * 100_000

    with contextlib.suppress(httpx.HTTPError):  # the server may close the connection
        assert asks.post("/api/sets/0/search", content=in_pieces()).status_code >= 400
    assert asks.get("/api/overview").status_code == 200
    answer = asks.post("/api/sets/0/search", json={"like": ["x" * 5000]})
    assert answer.status_code == 422 and len(answer.content) < 300 and "like.0" in answer.json()["detail"]


@pytest.mark.parametrize("weight", ["NaN", "Infinity"])
def test_non_finite_weights_are_rejected(client, folder, weight):
    body = f'{{"features": [{{"feature": 0, "weight": {weight}}}]}}'
    answer = client(folder).post("/api/sets/0/search", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422 and isinstance(answer.json()["detail"], str)


def test_only_labelled_samples_count_as_labelled(client):
    labels = np.where(np.arange(40) < 30, -1, 0)
    page = client(Features(np.ones((40, 2), np.float32), labels=labels)).get("/api/sets/0/feature/0").json()
    assert page["labelled"] == 10 and page["row"]["active"] == 40


def test_same_samples_requires_the_same_ids_in_the_same_order(client):
    codes = np.eye(3, dtype=np.float32)
    a, b, c = (Features(codes, ids=ids) for ids in (["x", "y", "z"], ["x", "y", "z"], ["z", "y", "x"]))
    assert client(a, b).get("/api/overview").json()["same_samples"]
    assert not client(a, c).get("/api/overview").json()["same_samples"]


def test_a_feature_has_a_partner_after_the_sets_were_compared(client):
    codes = np.random.default_rng(0).random((50, 3), np.float32)
    asks = client(Features(codes), Features(np.pad(codes[:, [2, 0]], ((0, 0), (0, 1)))))
    paths = [f"/api/sets/{number}/feature/{feature}" for number in (0, 1) for feature in range(3)]
    partners = lambda: [each and each["feature"] for each in (asks.get(path).json()["partner"] for path in paths)]  # noqa: E731
    assert partners() == [None] * 6
    asks.get("/api/comparison")
    assert partners() == [1, None, 0, 2, 0, None]
    assert asks.get(paths[0]).json()["partner"]["cosine"] == pytest.approx(1)


def test_some_texts_may_be_missing(client):
    texts = [None if row % 3 else f"moon {row}" for row in range(60)]
    features = Features(np.random.default_rng(0).random((60, 3), np.float32), texts=texts)
    explorer = open_explorer([features])
    explorer.prepare()
    assert explorer.overview().sets[0].is_settled


def test_images_that_browsers_cannot_show_are_not_offered(client):
    media = [b"RIFF0000WEBPVP8 ", b"GIF89a", b"\x00\x00nothing", picture(0)]
    asks = client(Features(np.eye(4, dtype=np.float32), media=media))
    shown = [asks.get(f"/api/sets/0/sample/{row}").json()["sample"]["has_picture"] for row in range(4)]
    assert shown == [True, True, False, True]
    assert asks.get("/media/0/0").headers["content-type"] == "image/webp"


def test_any_loopback_address_can_be_used(folder):
    with Page(open_explorer([folder]), host="127.0.0.2", port=0) as page:
        assert httpx.get(page.url).status_code == 200


@pytest.mark.parametrize("host", ["", " ", "not a host", "x" * 300])
def test_an_invalid_host_is_an_error(folder, host):
    with pytest.raises(InputError, match=f"host.*{host}"):
        explore(folder, host=host, port=0, block=False)


def test_a_classifier_with_textual_classes_predicts_them(client, converted, tmp_path):
    from nonneg import NonNegativeClassifier

    made, vectors = converted
    run = shutil.copytree(made.run, tmp_path / "run")
    shutil.copytree(made.features, tmp_path / "run.features")
    shutil.rmtree(run / "classifier")
    classes = np.array(["2", "0", "²"])[np.arange(120) % 3]  # digits, but not the numbers of labels
    NonNegativeClassifier(EMBEDDING).fit(vectors, classes).save_pretrained(run / "classifier")
    asks = client(run)
    assert [asks.get(f"/api/sets/0/sample/{row}").json()["prediction"]["label"] for row in range(3)] == ["2", "0", "²"]


def test_dense_codes_have_answers_of_limited_size(client):
    codes = np.random.default_rng(0).normal(size=(300, 500)).astype(np.float32)
    asks = client(Features(codes))
    answer = asks.post("/api/sets/0/search", json={"like": [1], "top": 100})
    assert len(answer.content) < 1_000_000
    for hit in answer.json()["hits"]:
        listed = [each["value"] for each in hit["contributions"]]
        assert len(listed) == 100 and sum(listed) + hit["rest"] == pytest.approx(hit["score"])
        assert np.all(np.diff(np.abs(listed)) <= 0)


def test_long_headers_are_rejected(client, folder):
    with contextlib.suppress(httpx.HTTPError):  # the server closes the connection
        assert client(folder).get("/", headers={"X-Long": "x" * 10_000_000}).status_code >= 400
    assert client(folder).get("/").status_code == 200
