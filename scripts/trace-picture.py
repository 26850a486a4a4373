#!/usr/bin/env python3
"""Draws a Chrome trace of dtfm-sim as an SVG picture: a row a device, what it computes above what it sends and receives.

usage: trace-picture.py TRACE.json PICTURE.svg [--from S] [--to S] [--width PIXELS]

Same trace, same picture. Slices of one kind that touch, or are nearer than a pixel, are drawn as one.
"""
import argparse
import json
import math
import sys
from collections import defaultdict
from html import escape

# What a slice is for, by the first word of its name, in the colours of Okabe and Ito (2008), which the colour-blind tell
# apart; and the part of the row that it is drawn in, from its top: 0 to 1.
COMPUTE, SEND, RECEIVE = (0.0, 0.6), (0.62, 0.8), (0.82, 1.0)
KINDS = {
    "F": ("forward", "#0072b2"),
    "B": ("backward", "#e69f00"),
    "C": ("compress", "#999999"),
    "update": ("update", "#000000"),
    "SA": ("activations", "#56b4e9"),
    "SG": ("their gradients", "#f0e442"),
    "AR": ("inside a stage", "#009e73"),
    "X": ("gradient exchange", "#d55e00"),
    "fetch": ("weights fetched", "#cc79a7"),
}
OTHER = ("other", "#999999")
PARTS = {"compute": COMPUTE, "send": SEND, "receive": RECEIVE}
ROW, GAP, LEFT, RIGHT, TOP, BOTTOM = 9, 2, 90, 12, 34, 30


def read(path):
    """({process: name}, [(process, kind of row, kind of slice, begin, end)]) in seconds, in order of time."""
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    names, rows = {}, {}
    for event in events:
        if event["ph"] == "M" and event["name"] == "process_name":
            names[event["pid"]] = event["args"]["name"]
        if event["ph"] == "M" and event["name"] == "thread_name":
            rows[event["pid"], event["tid"]] = event["args"]["name"].split()[0]
    slices = [(event["pid"], rows[event["pid"], event["tid"]], event["name"].split()[0], event["ts"] / 1e6,
               (event["ts"] + event["dur"]) / 1e6) for event in events if event["ph"] == "X"]
    return names, slices


def merged(slices, begin, end, near):
    """{(process, row, kind): [[begin, end], …]} within the window."""
    spans = defaultdict(list)
    for process, row, kind, first, last in slices:
        first, last = max(first, begin), min(last, end)
        if row not in PARTS or last <= first:
            continue
        list_ = spans[process, row, kind]
        if list_ and first - list_[-1][1] <= near:
            list_[-1][1] = max(list_[-1][1], last)
        else:
            list_.append([first, last])
    return spans


def step_of(length):
    """Seconds between marks: 1, 2 or 5 times a power of ten, five to a dozen marks."""
    step = 1e-9
    while length / step > 12:
        step *= 2 if f"{step:e}"[0] in "15" else 2.5
    return step


def strokes(spans):
    """Path commands from x = 0 along each span, in tenths of a pixel; each from where the one before ends."""
    text, at = "", 0
    for begin, end in spans:
        begin, end = round(10 * begin), max(round(10 * end), round(10 * begin) + 3)
        text += f"m{(begin - at) / 10:g} 0h{(end - begin) / 10:g}"
        at = end
    return text


def picture(names, slices, begin, end, width):
    devices = sorted(process for process in names if process > 0 and any(s[0] == process for s in slices))
    line = {process: TOP + index * (ROW + GAP) for index, process in enumerate(devices)}
    bottom = TOP + len(devices) * (ROW + GAP)
    scale = (width - LEFT - RIGHT) / (end - begin)

    def x(seconds):
        return LEFT + (seconds - begin) * scale

    spans = merged(slices, begin, end, 1 / scale)
    used = sorted({kind for _, _, kind in spans}, key=lambda kind: list(KINDS).index(kind) if kind in KINDS else 99)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{bottom + BOTTOM}" '
             f'viewBox="0 0 {width} {bottom + BOTTOM}" font-family="sans-serif" font-size="9">',
             '<rect width="100%" height="100%" fill="white"/>']
    at = LEFT
    for kind in used:
        name, colour = KINDS.get(kind, OTHER)
        parts.append(f'<rect x="{at}" y="8" width="9" height="9" fill="{colour}"/>'
                     f'<text x="{at + 13}" y="16">{escape(name)}</text>')
        at += 26 + 5 * len(name)
    for process in devices:
        parts.append(f'<rect x="{LEFT}" y="{line[process]}" width="{width - LEFT - RIGHT}" height="{ROW}" fill="#f4f4f4"/>'
                     f'<text x="{LEFT - 4}" y="{line[process] + ROW - 1}" text-anchor="end">{escape(names[process])}</text>')
    for (process, row, kind), list_ in sorted(spans.items()):
        top, low = PARTS[row]
        parts.append(f'<path stroke="{KINDS.get(kind, OTHER)[1]}" stroke-width="{(low - top) * ROW:.2f}" d="'
                     f'M0 {line[process] + (top + low) / 2 * ROW:.2f}{strokes([(x(a), x(b)) for a, b in list_])}"/>')
    step = step_of(end - begin)
    for i in range(math.ceil(begin / step - 1e-9), math.floor(end / step + 1e-9) + 1):
        seconds = i * step
        parts.append(f'<path stroke="#bbb" stroke-width="0.5" d="M{x(seconds):.1f} {TOP - 4}V{bottom + 4}"/>'
                     f'<text x="{x(seconds):.1f}" y="{bottom + 15}" text-anchor="middle">{seconds:g} s</text>')
    return "\n".join([*parts, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace")
    parser.add_argument("picture")
    parser.add_argument("--from", dest="begin", type=float, default=0, help="seconds (0)")
    parser.add_argument("--to", dest="end", type=float, help="seconds (the end)")
    parser.add_argument("--width", type=int, default=1000, help="pixels (1000)")
    options = parser.parse_args()
    names, slices = read(options.trace)
    end = options.end if options.end is not None else max((last for *_, last in slices), default=0)
    if end <= options.begin:
        print(f"{options.trace}: nothing between {options.begin} s and {end} s", file=sys.stderr)
        return 2
    with open(options.picture, "w", encoding="utf-8") as file:
        file.write(picture(names, slices, options.begin, end, options.width))
    return 0


if __name__ == "__main__":
    sys.exit(main())
