// The timeline of the document as what a canvas draws: arrays of dates in seconds from the start of the picture.

const laneNames = ["compute", "send", "receive"];
const laneWords = { compute: "computes", send: "sends", receive: "receives" };

/** Dates of a row, and for each span the latest end so far, which a search by date can go by. */
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
  return { lane: row.lane, kind: row.kind, tasks: row.tasks, microBatch: row.micro_batch, peer: row.peer, start, end, latest };
}

/** Devices in the order of pipelines and stages, others after them; `isFirst`: of its pipeline. */
function timelineDevices(report) {
  const lanes = new Map();
  for (const row of report.document.timeline.rows) {
    if (!lanes.has(row.device)) lanes.set(row.device, {});
    lanes.get(row.device)[row.lane] = decodedRow(row, report.document.timeline.tick_s);
  }
  const places = report.places();
  const order = d3.sort([...lanes.keys()], (device) => places.get(device)?.order ?? report.deviceCount + device);
  return order.map((device, i) => {
    const place = places.get(device);
    const isFirst = place !== undefined && place.pipeline !== places.get(order[i - 1])?.pipeline;
    return { device, label: report.idOf(device), place, isFirst, lanes: lanes.get(device) };
  });
}

/** The first span of a row that may still be under way at `date`. */
const firstAt = (row, date) => d3.bisectRight(row.latest, date);

/** The span of a row at `date`, the last one that has begun where several overlap; −1: none. */
function spanAt(row, date, tolerance) {
  let found = -1;
  for (let i = firstAt(row, date - tolerance); i < row.start.length && row.start[i] <= date + tolerance; ++i)
    if (row.end[i] >= date - tolerance) found = i;
  return found;
}
