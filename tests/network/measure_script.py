"""scripts/measure.sh on machines simulated by stand-ins for ssh, ping and iperf3: pairs, resuming,
rejected input.

usage: measure_script.py DTFM-TOPOLOGY
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "measure.sh"

# `ssh OPTION... -- HOST COMMAND` on a simulated machine, whose log records the beginning and end of each
# test.
SSH = """#!/bin/bash
while [ "$1" != -- ]; do [ "$1" != -O ] || exit 0; shift; done
case $2 in
  gone) printf 'ssh: connect to host gone port 22: No route to host\\r\\n' >&2; exit 255 ;;
  bare) [[ $3 == *command* ]] && { echo iperf3; exit 0; } ;;
esac
HOST=$2 exec sh -c "$3"
"""
PING = """#!/bin/bash
[ "${@: -1}" != silent ] || exit 1
echo "64 bytes from x: icmp_seq=1 ttl=64 time=40.2 ms"
echo "64 bytes from x: icmp_seq=2 ttl=64 time=40.0 ms"
"""
# A server exits immediately. A client prints what the real one prints.
IPERF3 = """#!/bin/bash
[ "$1" != -s ] || exit 0
to=$2
while [ "$1" != -P ]; do shift; done
echo "begin $HOST $to" >>"$LOG"
echo "end $HOST $to" >>"$LOG"
[ ! -e "$STATE/refuses-$to" ] || { printf '{\\n\\t"error":\\t"control socket has closed $(id) unexpectedly"\\n}\\n'; exit 1; }
[ ! -e "$STATE/nonsense-$to" ] || { printf '{"sum_received": }\\n'; exit 0; }
cat <<END
{"start": {"connected": [{"local_host": "1", "remote_host": "2"}], "test_start": {"num_streams": $2}},
 "end": {"sum_received": {
   "bits_per_second":\t${RATE:-1e8}
}}}
END
"""


class MeasureScript(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dtfm measure ")
        self.addCleanup(folder.cleanup)
        self.base = Path(folder.name)
        self.bin = self.base / "bin"
        self.bin.mkdir()
        for name, text in {"ssh": SSH, "ping": PING, "iperf3": IPERF3}.items():
            (self.bin / name).write_text(text, encoding="utf-8")
            (self.bin / name).chmod(0o755)
        self.log = self.base / "log"

    def run_it(self, *arguments, hosts=None, rate="1e8"):
        if hosts is not None:
            (self.base / "hosts").write_bytes(hosts if isinstance(hosts, bytes) else hosts.encode())
            arguments = ("--hosts", "hosts", *arguments)
        return subprocess.run([SCRIPT, *map(str, arguments)], cwd=self.base, capture_output=True, text=True, timeout=120,
                              env=dict(os.environ, PATH=f"{self.bin}:{os.environ['PATH']}", DTFM_TOPOLOGY=TOPOLOGY,
                                       LOG=str(self.log), STATE=str(self.base), RATE=rate))

    def measured(self, *arguments, **more):
        result = self.run_it(*arguments, **more)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def raw(self):
        return sorted(path.name for path in (self.base / "out" / "raw").iterdir())

    def test_every_pair_and_direction_once_and_no_host_in_two_at_a_time(self):
        for count in (2, 5):
            self.log.write_text("")
            hosts = [f"h{i}" for i in range(count)]
            self.measured("-o", f"out{count}", "--flows", 1, hosts="\n".join(hosts))
            busy, seen = set(), []
            for line in self.log.read_text().splitlines():
                what, *pair = line.split()
                if what == "begin":
                    self.assertFalse(busy & set(pair), f"{pair} while {busy} are busy")
                    busy |= set(pair)
                    seen.append(tuple(pair))
                else:
                    busy -= set(pair)
            self.assertEqual(sorted(seen), sorted((a, b) for a in hosts for b in hosts if a != b))
            # A round ends before the next one begins and has as many pairs as possible, in both directions.
            pairs = count // 2
            for begin in range(0, len(seen), 2 * pairs):
                together = {frozenset(pair) for pair in seen[begin:begin + 2 * pairs]}
                self.assertEqual(len(together), pairs)
                self.assertEqual(len(frozenset().union(*together)), 2 * pairs, "a host in two pairs of a round")

    def test_one_pair_at_a_time_on_request(self):
        self.measured("-o", "out", "--flows", 1, "--parallel", 1, hosts="a\nb\nc\nd")
        words = [line.split()[0] for line in self.log.read_text().splitlines()]
        self.assertEqual(words, ["begin", "end"] * 12)

    def test_existing_measurements_are_kept(self):
        self.measured("-o", "out", hosts="a\nb\nc")
        text = (self.base / "out" / "topology.yaml").read_text(encoding="utf-8")
        self.assertIn('name: "out"', text)
        self.assertIn('{from: "a", to: "b", latency: 20.05 ms, bandwidth: 100 Mbps, capacity: 100 Mbps}', text)
        (self.base / "out" / "raw" / "b,c.json").unlink()
        self.log.write_text("")
        self.measured("-o", "out", rate="2e8", hosts="a\nb\nc")
        self.assertEqual(self.log.read_text(), "begin b c\nend b c\n" * 2)  # one flow, four flows
        again = (self.base / "out" / "topology.yaml").read_text(encoding="utf-8")
        self.assertEqual(len(set(text.splitlines()) ^ set(again.splitlines())), 2, "one line is another")

    def test_a_failed_pair_leaves_nothing_and_the_others_continue(self):
        for reason, message in (("refuses", "a -> c: iperf3: control socket has closed $(id) unexpectedly (are TCP ports 5201 to 5216 of c open?)"),
                                ("nonsense", "a -> c: dtfm-topology: ")):
            (self.base / f"{reason}-c").touch()
            result = self.run_it("-o", "out", hosts="a\nb\nc")
            (self.base / f"{reason}-c").unlink()
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"measure.sh: {message}", result.stderr)
            self.assertIn("2 pairs could not be measured; the same command retries them", result.stderr)
            self.assertEqual(self.raw(), ["a,b.json", "b,a.json", "c,a.json", "c,b.json"])
            self.assertFalse((self.base / "out" / "topology.yaml").exists())
        self.measured("-o", "out", hosts="a\nb\nc")

    def test_a_host_that_does_not_answer_to_ping(self):
        result = self.run_it("-o", "out", hosts="a\nb b silent")
        self.assertEqual(result.returncode, 1)
        self.assertIn("measure.sh: a -> b: silent does not answer to ping", result.stderr)

    def test_all_unusable_hosts_are_reported_before_measuring(self):
        result = self.run_it("-o", "out", hosts="a\nx gone\ny bare")
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stderr.splitlines(), [
            "measure.sh: x: cannot be reached by gone: ssh: connect to host gone port 22: No route to host",
            "measure.sh: y lacks iperf3: apt-get install iperf3 iputils-ping coreutils (or dnf install iperf3 iputils coreutils) there"])
        self.assertFalse(self.log.exists())

    def test_machines_of_a_site_and_their_gpus(self):
        self.measured("-o", "out", "--flows", 1, "--", "--within-host", "5us,300Gbps",
                      hosts="# two sites\nlab/one - - A100-80GB 4\nlab/two me@two 10.0.0.2 T4\r\n\nfar  # the other one\n")
        self.assertIn("lab+one,far.json", self.raw())
        text = (self.base / "out" / "topology.yaml").read_text(encoding="utf-8")
        for line in ('- {name: "one", site: "lab", gpus_per_host: 4, gpu: "A100-80GB"}', '- {name: "two", site: "lab", gpu: "T4"}',
                     '- {site: "far"}', '{from: "one", to: "two"'):
            self.assertIn(line, text)

    def test_names_with_a_meaning_for_shell_or_ssh(self):
        hostile = ["$(touch owned)", "`touch owned`", "-oProxyCommand=touch${IFS}owned", "a;touch", "a|touch", "a&touch", "a>owned", "*", "../a",
                   "a/../b", "a/b/c", "'a'", '"a"', "é", "\\a", "a,b", "a=b", "a" * 300, ".a", "/a", "\u202ea", "a\x1b[31m"]
        for name in hostile:
            for line in (f"{name}", f"a {name}", f"a b {name}", f"a b c {name}", f"a b c T4 {name}"):
                with self.subTest(line=line):
                    result = self.run_it("-o", "out", hosts=f"{line}\nother\n")
                    self.assertEqual(result.returncode, 2)
                    self.assertRegex(result.stderr, r"\Ameasure\.sh: hosts:1: expected [^\n\x1b]*\n\Z")
        self.assertEqual({path.name for path in self.base.iterdir()}, {"bin", "hosts"})

    def test_rejected_input(self):
        two = "a\nb\n"
        for arguments, hosts, message in (
                ([], None, "--hosts FILE or --netns NAMES is missing (see --help)"),
                (["-o", "out"], None, "--hosts FILE or --netns NAMES is missing (see --help)"),
                ([], two, "-o FOLDER is missing (see --help)"),
                (["-o"], two, "-o requires a value (see --help)"),
                (["-o", "out", "--netns", "a,b"], two, "--hosts cannot be combined with --netns"),
                (["-o", "out", "--secs", "3"], two, "unexpected argument `--secs` (see --help)"),
                (["-o", "out", "--seconds", "08"], two, "--seconds: expected a whole number; found `08` (see --help)"),
                (["-o", "out", "--flows", "0"], two, "--flows: expected a number from 1 to 128; found 0 (see --help)"),
                (["-o", "out", "--port", "65535"], two, "--port: expected a number from 1024 to 65519; found 65535 (see --help)"),
                (["-o", "out"], "", "hosts: expected at least two machines; found 0"),
                (["-o", "out"], "a\n", "hosts: expected at least two machines; found 1"),
                (["-o", "out"], "a\nb\na\n", "hosts:3: a is given twice"),
                (["-o", "out"], "a\nlab/a\n", "hosts:2: a is given twice"),
                (["-o", "out"], "lab\nlab/a\n", "hosts:2: lab/a and lab: a name cannot be both a machine and a site with machines"),
                (["-o", "out"], "a b c T4 1 2\n", "hosts:1: expected at most 5 words, NAME DESTINATION ADDRESS GPU COUNT; found 6"),
                (["-o", "out"], "a netns:a\nb\n", "hosts:1: netns:a needs an address"),
                (["-o", "out"], b"a\0b\n", "hosts:1: expected a name such as oregon or oregon/node-1; found `a?b`"),
                (["-o", "out"], "\n".join(f"h{i}" for i in range(200)), "hosts:129: more than 128 machines")):
            with self.subTest(arguments=arguments, hosts=hosts):
                result = self.run_it(*arguments, hosts=hosts)
                self.assertEqual(result.returncode, 2)
                self.assertEqual(result.stderr.rstrip("\n"), f"measure.sh: {message}")
                self.assertFalse((self.base / "out").exists())
        self.assertEqual(self.run_it("--hosts", "none", "-o", "out").stderr, "measure.sh: none: cannot be read\n")

    def test_input_that_the_import_rejects_is_rejected_before_measuring(self):
        for hosts, options, message in (
                ("a\nb - - T4 8\n", [], "--within-host: is required, because it was not measured (LATENCY,BANDWIDTH, such as 5us,300Gbps)"),
                ("a\nb - - T5\n", [], "--gpu: unknown GPU `T5`; did you mean `T4`?"),
                ("a\nb\n", ["--gpu", "c=T4"], "--gpu: no site `c` was measured; known: `a`, `b`")):
            result = self.run_it("-o", "out", "--", *options, hosts=hosts)
            self.assertEqual(result.returncode, 2)
            self.assertEqual(result.stderr, f"dtfm-topology: {message}\n")
            self.assertFalse(self.log.exists())
            self.assertFalse((self.base / "out").exists())

    def test_help(self):
        text = self.measured("--help").stdout
        for word in ("usage:", "Examples:", "Exit codes:", "--parallel N", "--netns NAMES"):
            self.assertIn(word, text)
        self.assertNotIn("#!", text)


if __name__ == "__main__":
    TOPOLOGY = sys.argv[1]
    unittest.main(argv=sys.argv[:1])
