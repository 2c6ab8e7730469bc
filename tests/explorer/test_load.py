"""Many clients at once: no request fails, no name is lost, memory stays bounded."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks.explore import crowd, memory, started, synthetic, wait_for_names


def results(visits):
    with ThreadPoolExecutor(1) as thread:  # an event loop of its own: the browser of other tests may run one here
        return thread.submit(asyncio.run, visits).result()


def test_eight_clients_read_search_try_and_name_without_an_error(own_digits, serve):
    load = results(crowd(serve(own_digits / "ncl"), clients=8, seconds=2))
    assert load.errors == [] and len(load.times) > 16
    assert load.names and load.lost(own_digits / "ncl.features") == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_sixty_clients_read_search_try_and_name_for_a_minute(tmp_path):
    run = synthetic(tmp_path)
    process, _ = started(run, port=8792)
    try:
        wait_for_names("http://127.0.0.1:8792")
        results(crowd("http://127.0.0.1:8792", clients=3, seconds=3))  # loads the model
        before, _ = memory(process)
        load = results(crowd("http://127.0.0.1:8792", clients=60, seconds=60))
        _, peak = memory(process)
    finally:
        process.terminate()
        process.wait()
    assert load.errors == [] and load.names and load.lost(tmp_path / "synthetic.features") == []
    assert peak < before + 0.3  # gigabytes
