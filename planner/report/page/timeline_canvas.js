// Draws the visible part of the timeline on a canvas, skipping spans that are closer than a pixel.

const timelineSizes = { top: 24, compute: 0.56, message: 0.2, minRow: 4, maxRow: 34 };

/** `view`: {x: scale of seconds, row: height, scroll, width, height, left}; `colors`: by kind, and of the page. */
function drawTimeline(context, devices, view, colors) {
  context.fillStyle = colors.page;
  context.fillRect(0, 0, view.width, view.height);
  const first = Math.max(0, Math.floor(view.scroll / view.row));
  const last = Math.min(devices.length, Math.ceil((view.scroll + view.height - timelineSizes.top) / view.row));
  context.save();
  context.beginPath();
  context.rect(view.left, timelineSizes.top, view.width - view.left, view.height - timelineSizes.top);
  context.clip();
  drawGrid(context, view, colors);
  for (let i = first; i < last; ++i) drawDevice(context, devices[i], rowTop(i, view), view, colors);
  context.restore();
  drawNames(context, devices.slice(first, last), first, view, colors);
  drawAxis(context, view, colors);
}

const rowTop = (index, view) => timelineSizes.top + index * view.row - view.scroll;

/** Position of a track within its row: [offset from the top, height]. */
function trackBox(track, row) {
  const usable = row > 7 ? row - 2 : row - 0.5;
  const compute = usable * timelineSizes.compute;
  const message = usable * timelineSizes.message;
  if (track === "compute") return [0, compute];
  return track === "send" ? [compute + 0.5, message] : [compute + 0.5 + message, message];
}

function drawDevice(context, device, top, view, colors) {
  for (const track of trackNames) {
    const row = device.tracks[track];
    if (!row) continue;
    const [offset, height] = trackBox(track, view.row);
    drawLane(context, row, top + offset, Math.max(1, height), view, colors);
  }
}

function drawLane(context, row, y, height, { x }, colors) {
  const [from, to] = x.domain();
  let drawnTo = -Infinity;
  let drawnKind = "";
  for (let i = firstAt(row, from); i < row.start.length && row.start[i] <= to; ++i) {
    const left = x(row.start[i]);
    const right = x(row.end[i]);
    const kind = row.kind[i];
    if (right < drawnTo + 0.4 && kind === drawnKind) continue;
    const width = Math.max(0.6, right - left);
    context.fillStyle = colors[kind];
    context.fillRect(left, y, width, height);
    if (width > 5 && height > 3) { // separates adjacent spans of the same kind if there is room
      context.fillStyle = colors.page;
      context.fillRect(left + width - 0.7, y, 0.7, height);
    }
    drawnTo = Math.max(drawnTo, left + width);
    drawnKind = kind;
  }
}

function drawGrid(context, { x, width, height }, colors) {
  context.fillStyle = colors.line;
  for (const tick of x.ticks(Math.max(2, width / 110))) context.fillRect(Math.round(x(tick)), 0, 1, height);
}

function drawNames(context, devices, first, view, colors) {
  context.save();
  context.beginPath();
  context.rect(0, timelineSizes.top, view.left, view.height - timelineSizes.top);
  context.clip();
  context.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  context.textBaseline = "middle";
  devices.forEach((device, i) => {
    const y = rowTop(first + i, view);
    context.fillStyle = device.color;
    context.fillRect(view.left - 6, y, 4, view.row);
    if (device.isFirst) drawPipeline(context, device.place.pipeline, y, view, colors);
    if (view.row < 12) return;
    context.fillStyle = colors.ink;
    context.textAlign = "right";
    context.fillText(shortened(device.label, Math.floor((view.left - (view.wide ? 46 : 12)) / 6.4)), view.left - 10, y + view.row / 2);
  });
  context.restore();
}

/** Draws a line above the first row of a pipeline and its number, skipping numbers for lack of room. */
function drawPipeline(context, pipeline, y, view, colors) {
  context.fillStyle = colors.line;
  context.fillRect(0, y - 1, view.left - 8, 1);
  const every = Math.ceil(11 / (view.row * view.rowsOfPipeline));
  if (pipeline % every !== 0) return;
  context.fillStyle = colors.quiet;
  context.textAlign = "left";
  context.fillText(view.wide && view.row < 12 ? `pipeline ${pipeline}` : `p ${pipeline}`, 4, y + 7);
}

function drawAxis(context, { x, width, left }, colors) {
  context.fillStyle = colors.page;
  context.fillRect(0, 0, width, timelineSizes.top);
  context.fillStyle = colors.quiet;
  context.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  context.textBaseline = "middle";
  context.textAlign = "center";
  const ticks = x.ticks(Math.max(2, width / 110));
  const step = ticks.length > 1 ? ticks[1] - ticks[0] : 1;
  for (const tick of ticks)
    if (x(tick) > left + 16 && x(tick) < width - 30) context.fillText(tickText(tick, step), x(tick), timelineSizes.top / 2);
  context.fillStyle = colors.line;
  context.fillRect(0, timelineSizes.top - 1, width, 1);
}

/** Seconds with enough digits to distinguish adjacent ticks. */
function tickText(value, step) {
  const digits = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step) - 1e-9)));
  return `${value.toFixed(digits)} s`;
}
