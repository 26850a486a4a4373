#!/usr/bin/env python3
"""--report of dtfm-plan, dtfm-sim and dtfm-compare: the content of the page for every source of a
plan, and rejected input.

usage: command.py DTFM-PLAN DTFM-SIM DTFM-COMPARE    (exit 77 if they were built without the page)
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/cli"))  # shared code of the program tests

from iteration import FREE, read, write
from simulate import JITTER, PLAN, SIM, TOPOLOGY as UNPRICED

TOPOLOGY = UNPRICED.replace("gpu: card", "gpu: card, price: 1 USD/h")
COMPARE = Path(sys.argv[3]).resolve()
FEW = ("--scheme", "megatron", "--scheme", "zero2")  # schemes that need no search
MACHINES = ("net.yaml", "--job", "job.yaml", "--quiet")
SHORT = ("--evaluations", "3000")  # the program may be a slow sanitizer build


def run(program, *arguments, status=0):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == status, f"{arguments}: exit {done.returncode} instead of {status}: {done.stderr}"
    return done


def document(page):
    """Returns the data of a page; fails for a file that is not a report page."""
    text = Path(page).read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>"), page
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S).group(1))


class Reports(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for name, text in (("net.yaml", TOPOLOGY), ("job.yaml", FREE), ("jitter.yaml", JITTER)):
            write(name, text)
        run(PLAN, *MACHINES, *SHORT, "-o", "plan.json", "--report", "plan.html")

    def test_page_contains_the_plan_file(self):
        plan = read("plan.json")
        shown = document("plan.html")
        for key in ("pipelines", "parallelism", "estimate", "lower_bound", "finalists", "search", "topology", "unused"):
            self.assertEqual(shown["plan"][key], plan[key], key)
        self.assertEqual(shown["topology"]["fingerprint"], plan["topology"]["fingerprint"])
        self.assertEqual([site["name"] for site in shown["topology"]["sites"]], ["oregon", "ohio", "tokyo"])
        self.assertEqual(shown["simulation"]["iteration_time_s"]["mean"],
                         plan["finalists"][0]["simulated"]["nominal"]["mean_s"])

    def test_the_timeline_is_the_iteration(self):
        timeline = document("plan.html")["timeline"]
        plan = read("plan.json")
        rows = [row for row in timeline["rows"] if row["track"] == "compute"]
        used = [device for pipeline in plan["pipelines"] for stage in pipeline["stages"] for device in stage["devices"]]
        self.assertEqual(len(rows), len(used))
        computations = sum(pipeline["micro_batches"] * len(pipeline["stages"]) for pipeline in plan["pipelines"])
        self.assertEqual(sum(row["kind"].count("F") for row in rows), computations)
        self.assertEqual(sum(row["kind"].count("B") for row in rows), computations)
        length = timeline["end_s"] - timeline["start_s"]
        for row in timeline["rows"]:
            last = sum(row["start"]) + row["length"][-1]
            self.assertLessEqual(last * timeline["tick_s"], length + timeline["tick_s"])
            self.assertEqual(len(row["start"]), len(row["kind"]))

    def test_same_bytes_for_any_number_of_threads(self):
        page = Path("plan.html").read_bytes()
        for threads in (1, 3):
            run(PLAN, *MACHINES, *SHORT, "--threads", threads, "--report", "again.html")
            self.assertEqual(Path("again.html").read_bytes(), page, threads)

    def test_every_source_of_a_plan(self):
        for name, arguments in {
                "score": ("--score", "plan.json"), "warm": (*SHORT, "--warm-start", "plan.json"),
                "scenario": (*SHORT, "--scenario", "jitter.yaml"), "money": (*SHORT, "--objective", "cost-per-token"),
                "comm": ("--objective", "comm-cost", "--pipeline", "3"), "explain": (*SHORT, "--explain")}.items():
            with self.subTest(name):
                run(PLAN, *MACHINES, *arguments, "-o", f"{name}.json", "--report", f"{name}.html")
                plan = read(f"{name}.json")
                shown = document(f"{name}.html")
                self.assertEqual(shown["plan"]["pipelines"], plan["pipelines"])
                self.assertEqual(shown["plan"]["estimate"], plan["estimate"])
                self.assertIn("timeline", shown)
                self.assertEqual("search" in shown["plan"], name != "score")

    def test_a_plan_that_exceeds_memory_is_shown(self):
        write("tiny.yaml", TOPOLOGY.replace("16 GB", "100 MB"))
        run(PLAN, "tiny.yaml", "--job", "job.yaml", "--quiet", *SHORT, "--report", "tiny.html", status=3)
        shown = document("tiny.html")
        self.assertTrue(shown["simulation"]["out_of_memory"])
        self.assertTrue(any("fits the memory" in warning for warning in shown["plan"]["warnings"]))

    def test_a_plan_without_gpus_gives_the_reason_why_it_is_not_simulated(self):
        write("bare.yaml", re.sub(r", gpu: card, price: 1 USD/h", "", TOPOLOGY))
        run(PLAN, "bare.yaml", "--job", "job.yaml", "--quiet", "--objective", "comm-cost", "--pipeline", "3",
            "--report", "bare.html")
        shown = document("bare.html")
        self.assertNotIn("simulation", shown)
        self.assertTrue(any("could not be simulated" in warning for warning in shown["plan"]["warnings"]))

    def test_a_report_can_be_combined_with_other_outputs(self):
        run(SIM, "net.yaml", "plan.json", "--scenario", "jitter.yaml", "--iterations", "4", "--report", "run.html",
            "-o", "run.json", "--trace", "trace.json", "--tasks", "tasks.csv")
        result = read("run.json")
        shown = document("run.html")
        self.assertEqual(shown["simulation"], result)
        self.assertEqual(shown["critical_path"]["steps"], len(result["critical_path"]))
        self.assertEqual(shown["timeline"]["title"], "iteration 3")
        self.assertNotIn("search", shown["plan"])
        self.assertNotIn("estimate", shown["plan"])
        run(SIM, "net.yaml", "plan.json", "--scenario", "jitter.yaml", "--iterations", "4", "--report", "again.html")
        self.assertEqual(Path("run.html").read_bytes(), Path("again.html").read_bytes())

    def test_layers_of_a_long_model_are_not_repeated(self):
        layer = "{name: block, parameters: 1000000, forward_flops: 1 GFLOP, output: 1 MB, activation_memory: 1 MB}"
        write("chain.yaml", re.sub(r"model: .*", "model: {kind: layers, layers: [" + ", ".join([layer] * 6) + "]}", FREE))
        run(PLAN, "net.yaml", "--job", "chain.yaml", "--quiet", *SHORT, "--report", "chain.html")
        self.assertEqual(document("chain.html")["plan"]["job"]["model"], {"kind": "layers", "sequence": 1})

    def test_an_interrupted_search_shows_the_best_plan_so_far(self):
        """All links differ, so that no proof ends the search before the signal."""
        generator = ROOT / "scripts/generate-topology.py"
        subprocess.run([sys.executable, generator, "--devices", "64", "--sites", "8", "--noise", "0.3", "-o", "big.yaml"],
                       check=True, capture_output=True)
        search = subprocess.Popen([PLAN, "big.yaml", "--time-limit", "100", "--evaluations", "1000000000", "-o", "cut.json",
                                   "--report", "cut.html"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        search.stderr.readline()  # a line of progress: the search has begun
        search.send_signal(signal.SIGINT)
        search.communicate(timeout=100)
        self.assertEqual(search.returncode, 130)
        shown = document("cut.html")
        self.assertEqual(shown["plan"]["pipelines"], read("cut.json")["pipelines"])
        self.assertEqual(shown["plan"]["search"]["stopped"], "interrupted")
        self.assertTrue(any("not simulated for this page" in warning for warning in shown["plan"]["warnings"]))

    def test_many_runs_have_a_distribution_and_no_timeline(self):
        run(SIM, "net.yaml", "plan.json", "--scenario", "jitter.yaml", "--samples", "5", "--report", "samples.html")
        shown = document("samples.html")
        self.assertEqual(len(shown["simulation"]["samples"]["mean_iteration_time_s"]), 5)
        self.assertNotIn("timeline", shown)

    def test_page_contains_the_comparison_file(self):
        run(COMPARE, *MACHINES, "--scenario", "jitter.yaml", *FEW, "-o", "table.json", "--report", "table.html")
        shown = document("table.html")
        self.assertEqual(shown["comparison"], read("table.json"))
        self.assertEqual([site["name"] for site in shown["topology"]["sites"]], ["ohio", "tokyo", "oregon"])  # canonical order
        self.assertNotIn("plan", shown)
        page = Path("table.html").read_bytes()
        for threads in (1, 3):
            run(COMPARE, *MACHINES, "--scenario", "jitter.yaml", *FEW, "--threads", threads, "--report", "table.html")
            self.assertEqual(Path("table.html").read_bytes(), page, threads)

    def failing_report(self, output, program, *arguments):
        """Files are limited to 100 KiB, which the page exceeds and the result does not."""
        limited = f"ulimit -f 100; exec '{program}' \"$@\""
        done = subprocess.run(["bash", "-c", limited, "limited", *arguments, "-o", output, "--report", "beyond.html"],
                              capture_output=True, text=True, timeout=240, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("beyond.html", done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertFalse(Path("beyond.html").exists())

    def test_a_failed_report_keeps_the_result(self):
        self.failing_report("kept.json", PLAN, *MACHINES, *SHORT)
        self.assertEqual(Path("kept.json").read_bytes(), Path("plan.json").read_bytes())
        self.failing_report("kept-comm.json", PLAN, *MACHINES, "--objective", "comm-cost", "--pipeline", "3")
        self.assertIn("pipelines", read("kept-comm.json"))
        self.failing_report("kept-run.json", SIM, "net.yaml", "plan.json", "--iterations", "2")
        self.assertEqual(len(read("kept-run.json")["iterations"]), 2)
        self.failing_report("kept-table.json", COMPARE, *MACHINES, *FEW)
        self.assertEqual(len(read("kept-table.json")["schemes"]), 2)

    def refused(self, words, program, *arguments):
        before = sorted(Path(".").iterdir())
        said = run(program, *arguments, status=2).stderr
        self.assertIn(words, said)
        self.assertEqual(said.count("\n"), 1, said)
        self.assertEqual(sorted(Path(".").iterdir()), before)

    def test_rejected_usage(self):
        write("mine.html", "not a report")
        self.refused("--report: cannot be combined with --pareto", PLAN, *MACHINES, "--pareto", "f.json", "--report", "r.html")
        self.refused("cannot be combined with --diff", PLAN, "--diff", "plan.json", "plan.json", "--report", "r.html")
        self.refused("requires a file", PLAN, *MACHINES, "--report", "-")
        self.refused("it exists and is not a report", PLAN, *MACHINES, "--report", "net.yaml")
        self.refused("it exists and is not a report", SIM, "net.yaml", "plan.json", "--report", "mine.html")
        self.refused("it is given for two outputs", PLAN, *MACHINES, "-o", "x", "--report", "x")
        self.refused("cannot be combined with --graph", SIM, "--graph", "g.txt", "--report", "r.html")
        self.refused("cannot write", SIM, "net.yaml", "plan.json", "--report", "no-such-folder/r.html")

    def test_a_report_replaces_an_older_one_unless_the_input_is_bad(self):
        run(SIM, "net.yaml", "plan.json", "--report", "older.html")
        page = Path("older.html").read_bytes()
        write("bad.yaml", "version: 1\nname: [")
        self.refused("bad.yaml", SIM, "bad.yaml", "plan.json", "--report", "older.html")
        self.assertEqual(Path("older.html").read_bytes(), page)
        run(SIM, "net.yaml", "plan.json", "--iterations", "1", "--report", "older.html")
        self.assertNotEqual(Path("older.html").read_bytes(), page)

    def test_names_are_escaped(self):
        name, site = "</script><script>window.hacked=1</script>", "<img src=x onerror=window.hacked=1>"
        text = TOPOLOGY.replace("site: oregon", f"site: '{site}'").replace("name: three-sites", f"name: '{name}'")
        write("odd.yaml", text)
        run(PLAN, "odd.yaml", "--job", "job.yaml", "--quiet", *SHORT, "--report", "odd.html")
        self.assertEqual(document("odd.html")["topology"]["name"], name)
        self.assertEqual(document("odd.html")["topology"]["sites"][0]["name"], site)
        text = Path("odd.html").read_text(encoding="utf-8")
        self.assertEqual(text.count("<script"), Path("plan.html").read_text(encoding="utf-8").count("<script"))
        self.assertNotIn("<img", text)


def main():
    with tempfile.TemporaryDirectory(prefix="dtfm report ") as folder:
        os.chdir(folder)
        said = subprocess.run([SIM, "a", "b", "--report", "r.html"], capture_output=True, text=True, check=False).stderr
        if "built without the page" in said:
            assert "npm" in said and said.count("\n") == 1, said
            print("skipped: built without the page, which takes npm")
            return 77
        ended = unittest.main(argv=sys.argv[:1], exit=False).result
        os.chdir("/")
    return 0 if ended.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
