// Assignment of layers to devices: one row per pipeline, one column per stage.

const wideStages = 6; // beyond this, devices are below the layers
const denseStages = 12; // beyond this, devices are only in the tooltip

function cellTip(report, stage) {
  const rows = [["layers", layersOf(stage)]];
  for (const id of stage.devices) {
    const device = report.deviceIndex.get(id);
    rows.push([id, `${report.sites[report.siteOf(device)].name}${report.gpuOf(device) ? `, ${report.gpuOf(device)}` : ""}`]);
  }
  return rows;
}

function formatDevices(devices) {
  return devices.length <= 2 ? devices.join(" ") : `${devices[0]} + ${devices.length - 1}`;
}

function addMatrix(section, report, { pipelines, parallelism }) {
  const box = section.append("div").attr("class", "chart scroll tall").attr("tabindex", 0)
    .attr("role", "region").attr("aria-label", "Layers and devices of every stage of every pipeline");
  const density = parallelism.pipeline > denseStages ? "dense" : parallelism.pipeline > wideStages ? "close" : "";
  const table = box.append("table").attr("class", `matrix ${density}`);
  const head = table.append("thead").append("tr");
  head.append("th").attr("scope", "col").text("pipeline");
  head.selectAll("th.stage").data(d3.range(parallelism.pipeline)).join("th").attr("class", "stage").attr("scope", "col")
    .text((stage) => `stage ${stage}`);
  const rows = table.append("tbody").selectAll("tr").data(pipelines).join("tr");
  const names = rows.append("th").attr("scope", "row");
  names.append("span").text((_, i) => i);
  names.append("small").attr("class", "micro-batches").text((pipeline) => microBatches(pipeline.micro_batches));
  const cells = rows.selectAll("td").data((pipeline) => pipeline.stages).join("td")
    .attr("class", (stage) => (siteRound(report.sitesOf(stage.devices)[0]) > 0 ? "cell striped" : "cell"))
    .style("background", (stage) => stageBackground(report.sitesOf(stage.devices)))
    .style("color", (stage) => inkOn(siteHue(report.sitesOf(stage.devices)[0])));
  cells.append("span").attr("class", "layers").text((stage) => layersOf(stage));
  cells.append("span").attr("class", "devices").text((stage) => shortened(formatDevices(stage.devices), 28));
  addTooltip(cells, (stage) => stage.devices.join(" "), (stage) => cellTip(report, stage));
}

function showLayers(report) {
  const { plan } = report.document;
  if (!plan?.pipelines?.length) return;
  const section = addSection("layers", "Layers of each device", "Layers",
    "Each cell shows layers and devices; colours are sites. The replicas of a stage, in one column, synchronize gradients.");
  addMatrix(section, report, plan);
  const used = report.sites.map((site, index) => ({ ...site, index })).filter(({ index }) => report.usedAt(index) > 0);
  addLegend(section, used.map(({ name, index }) =>
    ({ text: `${name}: ${report.usedAt(index)} of ${plural(report.sites[index].devices, "device")}`, background: siteBackground(index) })));
  if (plan.unused?.length)
    section.append("p").attr("class", "note").text(`Not used: ${plan.unused.slice(0, 24).join(", ")}` +
      (plan.unused.length > 24 ? ` and ${count(plan.unused.length - 24)} more` : ""));
}
