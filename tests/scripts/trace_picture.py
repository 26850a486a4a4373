"""scripts/trace-picture.py: what of a trace is drawn where, always the same, and what it refuses."""
import json
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ET
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "trace-picture.py"
SVG = "{http://www.w3.org/2000/svg}"


def meta(process, name, row=None):
    kind = "process_name" if row is None else "thread_name"
    return {"ph": "M", "pid": process, "tid": row or 0, "name": kind, "args": {"name": name}}


def slice_(process, row, name, begin, end):
    return {"ph": "X", "pid": process, "tid": row, "name": name, "ts": begin * 1e6, "dur": (end - begin) * 1e6}


# One device computes from 0 to 2 and from 5 to 10 s, in two slices that touch, and sends from 2 to 4 s.
TRACE = [meta(0, "net"), meta(0, "iterations", 0), meta(1, "a/0"), meta(1, "compute", 0), meta(1, "send 2", 4),
         slice_(0, 0, "iteration 0", 0, 10), slice_(1, 0, "F p0 s0 m0", 0, 2), slice_(1, 4, "SA p0 s0 m0", 2, 4),
         slice_(1, 0, "B p0 s0 m0", 5, 7), slice_(1, 0, "B p0 s0 m1", 7, 10), {"ph": "C", "pid": 1, "ts": 0, "name": "memory"}]


class TracePicture(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def draw(self, *options):
        (self.folder / "t.json").write_text(json.dumps({"traceEvents": TRACE}), encoding="utf-8")
        return subprocess.run([sys.executable, SCRIPT, "t.json", "p.svg", *options], cwd=self.folder, capture_output=True,
                              text=True, check=False)

    def strokes(self):
        """{colour: [(begin, width), …]} in pixels."""
        drawn = {}
        for path in ET.parse(self.folder / "p.svg").iter(SVG + "path"):
            at, spans = 0, []
            for gap, length in re.findall(r"m([-\d.]+) 0h([\d.]+)", path.get("d")):
                at += float(gap)
                spans.append((at, float(length)))
                at += float(length)
            if spans:
                drawn[path.get("stroke")] = spans
        return drawn

    def test_slices_are_drawn_to_scale(self):
        # 90 pixels for names and 12 at the right leave 500 for 10 s.
        self.assertEqual(self.draw("--width", "602").returncode, 0)
        self.assertEqual(self.strokes(), {"#0072b2": [(90, 100)], "#e69f00": [(340, 250)], "#56b4e9": [(190, 100)]})
        texts = [text.text for text in ET.parse(self.folder / "p.svg").iter(SVG + "text")]
        self.assertEqual(texts[:4], ["forward", "backward", "activations", "a/0"])
        self.assertIn("10 s", texts)

    def test_a_part_of_the_time(self):
        self.draw("--width", "602", "--from", "1", "--to", "6")
        self.assertEqual(self.strokes(), {"#0072b2": [(90, 100)], "#e69f00": [(490, 100)], "#56b4e9": [(190, 200)]})

    def test_the_same_picture_again(self):
        self.draw()
        first = (self.folder / "p.svg").read_bytes()
        self.draw()
        self.assertEqual(first, (self.folder / "p.svg").read_bytes())

    def test_nothing_to_draw(self):
        done = self.draw("--from", "10")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("t.json: nothing between 10.0 s and 10.0 s", done.stderr)
        self.assertFalse((self.folder / "p.svg").exists())


if __name__ == "__main__":
    unittest.main()
