"""Ctrl-C returns the best result so far, callbacks may raise, and threads work at the same time."""

import os
import signal
import subprocess
import sys
import threading
import unittest
from pathlib import Path

import dtfm

PATH = Path(__file__).parents[2] / "topologies" / "worldwide.yaml"
TOPOLOGY = dtfm.Topology(PATH)
PLAN = dtfm.plan(TOPOLOGY, evaluations=100)
LONG = 10_000_000


class Press:
    """Presses Ctrl-C once work has come so far."""

    def __init__(self, what: str, number: int) -> None:
        self.what, self.number, self.pressed = what, number, False

    def __call__(self, facts: dict) -> None:
        if facts[self.what] >= self.number and not self.pressed:
            self.pressed = True
            os.kill(os.getpid(), signal.SIGINT)


class TestInterrupts(unittest.TestCase):
    def test_search_returns_the_best_plan_so_far(self):
        for evaluations in (1, 1000, 20_000):
            press = Press("evaluations", evaluations)
            plan = dtfm.plan(TOPOLOGY, evaluations=LONG, progress=press, threads=2)
            self.assertTrue(press.pressed and plan.is_interrupted)
            self.assertTrue(plan.pipelines)

    def test_simulation(self):
        press = Press("iteration", 1)
        run = dtfm.simulate(TOPOLOGY, PLAN, iterations=1_000_000, progress=press)
        self.assertTrue(press.pressed and run.is_interrupted)
        self.assertGreater(run.iteration_time_s["mean"], 0)

    def test_interrupts_at_any_moment(self):
        """Every outcome is a result or KeyboardInterrupt, and the next call works."""
        for delay_ms in range(0, 60, 5):
            timer = threading.Timer(delay_ms / 1000, os.kill, (os.getpid(), signal.SIGINT))
            try:
                timer.start()
                dtfm.plan(TOPOLOGY, evaluations=LONG)
            except KeyboardInterrupt:
                pass
            finally:
                timer.join()
        self.assertFalse(dtfm.plan(TOPOLOGY, evaluations=100).is_interrupted)

    def test_calibration(self):
        runs = [{"plan": PLAN, "seconds": seconds} for seconds in (9, 10, 11, 12, 13, 30)]
        press = Press("share", 0)
        with self.assertRaises(KeyboardInterrupt):
            dtfm.calibrate(TOPOLOGY, runs, progress=press)
        self.assertTrue(press.pressed)

    def test_what_a_callback_raises(self):
        def fail(facts):
            raise LookupError("of the callback")

        with self.assertRaisesRegex(LookupError, "of the callback"):
            dtfm.plan(TOPOLOGY, evaluations=LONG, progress=fail)

    def test_what_a_callback_raises_without_a_result(self):
        def fail(facts):
            raise LookupError("of the callback")

        with self.assertRaisesRegex(LookupError, "of the callback"):
            dtfm.compare(TOPOLOGY, scheme="megatron", progress=fail)

    def test_the_interpreter_ends_during_a_search(self):
        script = f"""
import dtfm, threading, time
for progress in (None, lambda facts: None):
    work = dict(topology={str(PATH)!r}, evaluations={LONG}, threads=1, progress=progress)
    threading.Thread(target=dtfm.plan, kwargs=work, daemon=True).start()
time.sleep(0.5)
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_forked_process_plans(self):
        script = f"""
import dtfm, os, signal
first = dtfm.plan({str(PATH)!r}, evaluations=100, threads=2)
child = os.fork()
if child == 0:
    signal.alarm(60)
    os._exit(dtfm.plan({str(PATH)!r}, evaluations=100, threads=2).to_json() != first.to_json())
raise SystemExit(os.waitpid(child, 0)[1])
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=90, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_threads(self):
        expected = dtfm.simulate(TOPOLOGY, PLAN).to_json()
        results = [None] * 4

        def work(i):
            results[i] = [dtfm.simulate(TOPOLOGY, PLAN).to_json() for _ in range(5)]

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, [[expected] * 5] * 4)


if __name__ == "__main__":
    unittest.main()
