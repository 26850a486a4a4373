// The timeline section: a canvas that can be zoomed and panned by mouse, touch, keys or buttons.

const timelineBox = { height: 600, wideLeft: 150, narrowLeft: 60, printHeight: 900, farthest: 1e6 };

class TimelineView {
  /** `length`: seconds that the whole width shows. */
  constructor(section, report, timeline, length) {
    this.report = report;
    this.kindNames = timeline.kinds;
    this.length = length;
    this.devices = timelineDevices(report, timeline);
    for (const it of this.devices) it.color = siteHue(report.siteOf(it.device));
    this.rowsOfPipeline = this.devices.length / Math.max(1, d3.sum(this.devices, (it) => it.isFirst));
    this.row = Math.max(timelineSizes.minRow, Math.min(28, (timelineBox.height - timelineSizes.top) / this.devices.length));
    this.addControls(section);
    this.legend(section, timeline);
    this.addCanvas(section);
  }

  addControls(section) {
    const controls = section.append("div").attr("class", "controls screen-only");
    const add = (text, label, act) => controls.append("button").attr("type", "button").attr("aria-label", label).text(text).on("click", act);
    add("+", "Zoom in", () => this.zoomBy(2));
    add("−", "Zoom out", () => this.zoomBy(0.5));
    add("◀", "Earlier", () => this.panBy(-0.25));
    add("▶", "Later", () => this.panBy(0.25));
    add("All", "The whole iteration", () => this.reset());
    add("Taller rows", "Taller rows", () => this.resizeRows(1.5));
    add("Lower rows", "Lower rows", () => this.resizeRows(1 / 1.5));
  }

  legend(section, { kinds }) {
    const used = new Set(this.devices.flatMap(({ tracks }) => Object.values(tracks).flatMap(({ kind }) => [...new Set(kind)])));
    this.kinds = Object.keys(kinds).filter((kind) => used.has(kind));
    addLegend(section, this.kinds.map((kind) => ({ text: kinds[kind], background: `var(--kind-${kind})` })));
    this.swatches = section.selectAll(".legend:last-of-type .swatch").nodes();
  }

  addCanvas(section) {
    this.box = section.append("div").attr("class", "chart timeline").node();
    this.picture = d3.select(this.box).append("canvas").attr("tabindex", 0).attr("role", "img")
      .attr("aria-label", "Timeline of the devices. Arrow keys move, plus and minus zoom, Home shows all.");
    this.canvas = this.picture.node();
    this.probe = d3.select(this.box).append("span").attr("hidden", true).style("color", "var(--line)").node();
    this.filler = d3.select(this.box).append("div").node();
    this.zoom = d3.zoom().scaleExtent([1, timelineBox.farthest])
      .filter((event) => (event.type === "wheel" ? event.ctrlKey || event.metaKey : !event.touches || event.touches.length > 1))
      .on("zoom", (event) => this.zoomed(event));
    this.transform = d3.zoomIdentity;
    this.picture.call(this.zoom).on("keydown", (event) => this.key(event))
      .on("pointermove", (event) => this.hover(event)).on("pointerleave", () => tooltip.hide());
    this.box.addEventListener("scroll", () => this.draw(), { passive: true });
    onWidth(this.box, (width) => this.resize(width));
    window.addEventListener("beforeprint", () => this.print());
    window.addEventListener("afterprint", () => this.resize(this.width));
  }

  /** Resizes to a width in pixels and, if given, a height; else to the height of the rows, up to a limit. */
  resize(width, height) {
    this.width = width;
    this.left = width < 560 ? timelineBox.narrowLeft : timelineBox.wideLeft;
    const whole = Math.ceil(timelineSizes.top + this.row * this.devices.length);
    this.height = height ?? Math.min(timelineBox.height, whole);
    this.box.style.height = `${this.height + 2}px`;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.canvas.style.height = `${this.height}px`;
    this.filler.style.height = `${Math.max(0, whole - this.height)}px`;
    this.context = this.canvas.getContext("2d");
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.base = d3.scaleLinear([0, this.length], [this.left, width]);
    this.zoom.extent([[this.left, 0], [width, this.height]]).translateExtent([[this.left, -Infinity], [width, Infinity]]);
    this.draw();
  }

  /** Paper does not scroll, so all rows are shown, as low as necessary. */
  print() {
    const row = this.row;
    const room = timelineBox.printHeight - timelineSizes.top;
    this.row = Math.min(row, room / this.devices.length);
    this.resize(this.width, Math.ceil(timelineSizes.top + this.row * this.devices.length));
    this.row = row;
  }

  draw() {
    if (!this.base) return; // not laid out yet
    const x = this.transform.rescaleX(this.base);
    const view = { x, row: this.row, scroll: this.box.scrollTop, width: this.width, height: this.height, left: this.left,
      wide: this.width >= 560, rowsOfPipeline: this.rowsOfPipeline };
    drawTimeline(this.context, this.devices, view, this.colors());
    const [from, to] = x.domain();
    Object.assign(this.box.dataset, { from, to, rows: this.devices.length, row: this.row });
  }

  /** Colours of the current theme. */
  colors() {
    const section = getComputedStyle(this.box.closest("section"));
    const colors = { page: section.backgroundColor, ink: section.color, line: getComputedStyle(this.probe).color };
    colors.quiet = getComputedStyle(document.getElementById("subtitle")).color;
    this.kinds.forEach((kind, i) => { colors[kind] = getComputedStyle(this.swatches[i]).backgroundColor; });
    return colors;
  }

  zoomed({ transform, sourceEvent }) {
    if (sourceEvent?.type === "mousemove") this.box.scrollTop -= sourceEvent.movementY;
    this.transform = transform;
    this.draw();
  }
  zoomBy(factor) { this.picture.call(this.zoom.scaleBy, factor); }
  panBy(share) { this.picture.call(this.zoom.translateBy, -share * (this.width - this.left) / this.transform.k, 0); }
  reset() { this.picture.call(this.zoom.transform, d3.zoomIdentity); }
  resizeRows(factor) {
    this.row = Math.max(timelineSizes.minRow, Math.min(timelineSizes.maxRow, this.row * factor));
    this.resize(this.width);
  }

  key(event) {
    const acts = { "+": () => this.zoomBy(2), "=": () => this.zoomBy(2), "-": () => this.zoomBy(0.5), Home: () => this.reset(),
      ArrowLeft: () => this.panBy(-0.1), ArrowRight: () => this.panBy(0.1),
      ArrowUp: () => { this.box.scrollTop -= 40; }, ArrowDown: () => { this.box.scrollTop += 40; } };
    if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    acts[event.key]();
  }

  /** Shows the tooltip of the span under the pointer. */
  hover(event) {
    const [px, py] = d3.pointer(event, this.canvas);
    const index = Math.floor((py - timelineSizes.top + this.box.scrollTop) / this.row);
    const device = py < timelineSizes.top ? undefined : this.devices[index];
    if (!device) return tooltip.hide();
    const within = (py - timelineSizes.top + this.box.scrollTop) % this.row;
    const track = trackNames.findLast((name) => within >= trackBox(name, this.row)[0] - 0.5);
    const x = this.transform.rescaleX(this.base);
    const row = px < this.left ? undefined : device.tracks[track];
    const span = row ? spanAt(row, x.invert(px), x.invert(this.left + 1.5) - x.invert(this.left)) : -1;
    const rows = [...this.placeTip(device), ...(span < 0 ? [] : this.spanTip(row, span))];
    return tooltip.show(event, device.label, rows);
  }

  placeTip({ place }) {
    return place ? [["slot", `pipeline ${place.pipeline}, stage ${place.stage}, layers ${place.layers}`]] : [];
  }

  spanTip(row, i) {
    const rows = [[trackWords[row.track], this.kindNames[row.kind[i]]]];
    const tasks = row.tasks?.[i] ?? 1;
    if (tasks > 1) rows.push(["merged", plural(tasks, "task")]);
    if ((row.microBatch?.[i] ?? -1) >= 0) rows.push(["micro-batch", count(row.microBatch[i])]);
    if ((row.peer?.[i] ?? -1) >= 0) rows.push([row.track === "send" ? "to" : "from", this.report.idOf(row.peer[i])]);
    rows.push(["from", seconds(row.start[i])], ["takes", seconds(row.end[i] - row.start[i])]);
    return rows;
  }
}

function timelineNote({ title, merged_below_s, merges_kinds, tasks }, run) {
  const read = "Each row shows, from top to bottom, what a device computes, sends and receives. Drag to pan, Ctrl and wheel to zoom.";
  if (merged_below_s === undefined) return `${read} It shows ${title} of the ${run}: ${count(tasks)} bars.`;
  return `${read} It shows ${title} of the ${run}. Of its ${count(tasks)} bars, neighbours ${merges_kinds ? "" : "of one kind "}` +
    `shorter and nearer than ${seconds(merged_below_s)} are drawn as one, to bound the size of this page.`;
}

/** The simulated iteration and, below it on the same scale, a measured one. */
function showTimeline(report) {
  const { timeline, measured_timeline: measured } = report.document;
  if (!timeline) return;
  const lengthOf = (it) => it.end_s - it.start_s;
  const length = measured ? Math.max(lengthOf(timeline), lengthOf(measured)) : lengthOf(timeline);
  const show = (id, title, link, it, run) => {
    const section = addSection(id, title, link, timelineNote(it, run));
    const view = new TimelineView(section, report, it, length);
    report.onTheme(() => view.draw());
  };
  show("timeline", "Timeline of an iteration", "Timeline", timeline, "simulated run");
  if (measured) show("measured-timeline", "Timeline of a measured iteration", "Measured", measured, "training");
}
