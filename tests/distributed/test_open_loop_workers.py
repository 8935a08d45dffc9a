"""An open loop whose workers go and come: the schedule is kept by those that are there."""

import signal
import time

from tests.support.locust_run import finish, output_of, wait_for
from tests.support.scripted_server import chat_stream
from tests.support.swarm import calls, engine, swarm

SETTINGS = {
    "load.mode": "rate",
    "load.levels": None,
    "load.rates": "20",
    "load.arrivals": "constant",
    "load.ramp_s": "0",
    "load.warmup_s": "0",
    "load.measure_s": "25",
}
HEARD_AGAIN_S = 1.0  # by then an announcement to those who are left has been heard


def test_the_rest_of_a_level_is_shared_anew_when_a_worker_is_lost_and_when_one_joins(tmp_path):
    with engine(chat_stream(ttft_ms=20, tokens=1)) as server, swarm(tmp_path, server.url, settings=SETTINGS) as made:
        made.wait_for_phase("measure")
        wait_for(lambda: len(calls(server)) >= 40)
        made.workers[0].send_signal(signal.SIGKILL)
        wait_for(lambda: "goes on with workers" in output_of(tmp_path), 30)
        time.sleep(HEARD_AGAIN_S)
        alone_from_s = time.perf_counter()
        time.sleep(2.2)
        alone = [seen.at_s for seen in calls(server) if alone_from_s <= seen.at_s < alone_from_s + 2]
        assert abs(len(alone) - 40) <= 2, "one worker sends all of the rate"
        made.add_worker()
        wait_for(lambda: output_of(tmp_path).count("goes on with workers") == 2, 30)
        finished = finish(made.master, tmp_path, limit_s=60)
    rows = [row for row in finished.rows("requests.csv") if row["phase"] == "measure"]
    assert len({row["worker"] for row in rows}) == 3
    # every arrival is sent by one worker, but for those that were the lost one's until the others knew
    planned = sorted(float(row["sent_unix_s"]) + float(row["planned_ms"]) / 1000 for row in rows)
    numbers = [round(20 * (each - planned[0])) for each in planned]
    assert len(set(numbers)) == len(numbers)
    assert numbers[-40:] == list(range(numbers[-40], numbers[-40] + 40))
