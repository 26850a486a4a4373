// Decodes the timeline of the document for drawing: arrays of times in seconds since the start of the timeline.

const trackNames = ["compute", "send", "receive"];
const trackWords = { compute: "computes", send: "sends", receive: "receives" };

/** Times of a row and, for binary search, the latest end up to each span. */
function decodedRow(row, tick) {
  const size = row.start.length;
  const start = new Float64Array(size);
  const end = new Float64Array(size);
  const latest = new Float64Array(size);
  let ticks = 0;
  for (let i = 0; i < size; ++i) {
    ticks += row.start[i];
    start[i] = ticks * tick;
    end[i] = (ticks + row.length[i]) * tick;
    latest[i] = i === 0 ? end[i] : Math.max(latest[i - 1], end[i]);
  }
  return { track: row.track, kind: row.kind, tasks: row.tasks, microBatch: row.micro_batch, peer: row.peer, start, end, latest };
}

/** Devices ordered by pipeline and stage, then all others; `isFirst` marks the first device of a pipeline. */
function timelineDevices(report, timeline) {
  const tracks = new Map();
  for (const row of timeline.rows) {
    if (!tracks.has(row.device)) tracks.set(row.device, {});
    tracks.get(row.device)[row.track] = decodedRow(row, timeline.tick_s);
  }
  const places = report.places();
  const order = d3.sort([...tracks.keys()], (device) => places.get(device)?.order ?? report.deviceCount + device);
  return order.map((device, i) => {
    const place = places.get(device);
    const isFirst = place !== undefined && place.pipeline !== places.get(order[i - 1])?.pipeline;
    return { device, label: report.idOf(device), place, isFirst, tracks: tracks.get(device) };
  });
}

/** Index of the first span of a row that may still be running at `date`. */
const firstAt = (row, date) => d3.bisectRight(row.latest, date);

/** Index of the span of a row at `date`, of overlapping ones the last to start; −1: none. */
function spanAt(row, date, tolerance) {
  let found = -1;
  for (let i = firstAt(row, date - tolerance); i < row.start.length && row.start[i] <= date + tolerance; ++i)
    if (row.end[i] >= date - tolerance) found = i;
  return found;
}
