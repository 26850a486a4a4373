// Where each device's time goes, over the whole simulated run.

const timeParts = [
  { key: "compute_s", text: "computing", fill: "var(--compute)" },
  { key: "waiting_network_s", text: "waiting for the network", fill: "var(--network)" },
  { key: "waiting_others_s", text: "waiting for others", fill: "var(--others)" },
  { key: "down_s", text: "down", fill: "var(--down)" },
];

function showDeviceTime(report) {
  const { simulation } = report.document;
  if (!simulation?.devices?.length || !(simulation.length_s > 0)) return;
  const section = addSection("time", "Where each device's time goes", "Devices' time",
    `Over ${report.runName()}, ${seconds(simulation.length_s)} long. Sending and receiving overlap with these.`);
  const used = timeParts.filter(({ key }) => simulation.devices.some((device) => device[key] > 0));
  addLegend(section, used.map(({ text, fill }) => ({ text, background: fill })));
  const share = (value) => `${percent(value / simulation.length_s)}, ${seconds(value)}`;
  const extra = [{ key: "sending_s", text: "sending" }, { key: "receiving_s", text: "receiving" }];
  const devices = simulation.devices.map((it) => ({ ...it, device: report.deviceIndex.get(it.device), label: it.device }));
  const rows = bySite(report, devices).map((it) => ({
    label: it.label,
    site: report.siteOf(it.device),
    parts: used.map(({ key, fill }) => ({ value: it[key] / simulation.length_s, fill })),
    tip: [...timeParts, ...extra].map(({ key, text }) => [text, share(it[key])]),
  }));
  addDeviceRows(section, "Time of each device", report, rows, 1, d3.format(".0%"));
  addDetails(section, "time of each device", [
    { name: "device", text: (it) => it.device },
    ...[...timeParts, ...extra].map(({ key, text }) => ({ name: text, number: true, text: (it) => seconds(it[key]) })),
  ], simulation.devices);
}
