// Memory needed on each device, against its capacity.

/** {device, needed, capacity?, peak?} in bytes: the estimate of the plan if there is one, else the simulated peak. */
function memoryOf({ plan, simulation }) {
  const peaks = new Map((simulation?.devices ?? []).map((it) => [it.device, it]));
  const estimated = plan?.estimate?.memory ?? [];
  if (estimated.length)
    return estimated.map(({ device, needed_bytes, capacity_bytes }) =>
      ({ device, needed: needed_bytes, capacity: capacity_bytes, peak: peaks.get(device)?.peak_memory_bytes }));
  return [...peaks.values()].filter((it) => it.memory_bytes !== null)
    .map((it) => ({ device: it.device, needed: it.peak_memory_bytes, capacity: it.memory_bytes }));
}

function showMemory(report) {
  const all = memoryOf(report.document);
  if (!all.length) return;
  const isEstimate = Boolean(report.document.plan?.estimate?.memory?.length);
  const section = addSection("memory", "Memory of each device", "Memory",
    `${isEstimate ? "Estimated need" : "Simulated peak"} of each device; the mark is its capacity.`);
  if (all.some((it) => it.needed > it.capacity))
    addLegend(section, [{ text: "fits", background: "var(--compute)" }, { text: "exceeds memory", background: "var(--network)" }]);
  const tip = (it) => [[isEstimate ? "needed" : "simulated peak", bytes(it.needed)],
    ...(it.peak === undefined ? [] : [["simulated peak", bytes(it.peak)]]), ["capacity", bytes(it.capacity)],
    ["used", percent(it.needed / it.capacity)]];
  const rows = bySite(report, all.map((it) => ({ ...it, label: it.device, device: report.deviceIndex.get(it.device) }))).map((it) => ({
    label: it.label,
    site: report.siteOf(it.device),
    parts: [{ value: it.needed, fill: it.needed > it.capacity ? "var(--network)" : "var(--compute)" }],
    capacity: it.capacity,
    tip: tip(it),
  }));
  const most = d3.max(all, (it) => Math.max(it.needed, it.capacity));
  addDeviceRows(section, "Memory of each device", report, rows, most, (value) => (value === 0 ? "0" : bytes(value)));
  addDetails(section, "memory of each device", [
    { name: "device", text: (it) => it.device },
    { name: isEstimate ? "needed" : "simulated peak", number: true, text: (it) => bytes(it.needed) },
    ...(isEstimate && all.some((it) => it.peak !== undefined)
      ? [{ name: "simulated peak", number: true, text: (it) => (it.peak === undefined ? "" : bytes(it.peak)) }] : []),
    { name: "capacity", number: true, text: (it) => bytes(it.capacity) },
    { name: "used", number: true, text: (it) => percent(it.needed / it.capacity) },
  ], all);
}
