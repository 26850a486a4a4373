// The finalists: plans that were simulated under each scenario to choose the result.

const finalistSizes = { step: 26, top: 26, left: 132, narrowLeft: 84 };
const scenarioColors = ["var(--kind-F)", "var(--kind-X)", "var(--kind-B)", "var(--kind-R)", "var(--kind-U)", "var(--kind-W)", "var(--kind-A)"];

/** Stages × replicas × devices per stage, without line breaks. */
const shapeOf = (it) => `${it.pipeline} × ${it.data}${it.tensor > 1 ? ` × ${it.tensor}` : ""}`.replaceAll(" ", "\u00a0");

/** Names of the scenarios of all finalists, in order. */
function scenarioNames(finalists) {
  return [...new Set(finalists.flatMap((it) => Object.keys(it.simulated)))];
}

/** Draws a ring for the estimate and, for each scenario, a dot for the mean with a line to the longest iteration. */
function drawFinalists(box, finalists, scenarios, width) {
  const { step, top } = finalistSizes;
  const left = width < 500 ? finalistSizes.narrowLeft : finalistSizes.left;
  const height = top + finalists.length * step + 6;
  const picture = newPicture(box, width, height, "Time of an iteration of each finalist");
  const times = finalists.flatMap((it) => [it.iteration_time_s, ...Object.values(it.simulated).flatMap(({ mean_s, max_s }) => [mean_s, max_s])])
    .filter((value) => value !== null);
  const x = d3.scaleLinear(roomy(times), [left, width - 24]).nice();
  picture.append("g").attr("class", "axis").attr("transform", `translate(0,${top})`)
    .call(d3.axisTop(x).ticks(Math.max(2, width / 130)).tickFormat((value) => `${value} s`).tickSize(-(height - top)))
    .select(".domain").remove();
  const rows = picture.append("g").selectAll("g").data(finalists).join("g").attr("class", "finalist")
    .attr("transform", (_, i) => `translate(0,${top + (i + 0.5) * step})`);
  rows.append("text").attr("x", left - 12).attr("dy", "0.35em").attr("text-anchor", "end")
    .style("font-weight", (_, i) => (i === 0 ? "650" : null))
    .text((it, i) => (width < 500 ? shapeOf(it) : `${i === 0 && finalists.length > 1 ? "chosen: " : ""}${shapeOf(it)}`));
  rows.each(function (it) {
    drawScenarioDots(d3.select(this), it, scenarios, x);
    d3.select(this).append("circle").attr("class", "estimate mark-outline").attr("cx", x(it.iteration_time_s)).attr("r", 7);
  });
  rows.append("rect").attr("y", -step / 2).attr("width", width).attr("height", step).attr("fill", "none").attr("pointer-events", "all");
  addTooltip(rows, (it) => `${shapeOf(it)} on ${plural(it.devices, "device")}`, (it) => finalistTip(it, scenarios));
}

function drawScenarioDots(row, it, scenarios, x) {
  scenarios.forEach((name, i) => {
    const times = it.simulated[name];
    if (!times || times.mean_s === null) return;
    const color = scenarioColors[i % scenarioColors.length];
    if (times.max_s !== null)
      row.append("path").attr("d", `M${x(times.mean_s)},0H${x(times.max_s)}`).style("stroke", color).style("stroke-width", "2px");
    row.append("circle").attr("class", "simulated").attr("cx", x(times.mean_s)).attr("r", 4).style("fill", color);
  });
}

function finalistTip(it, scenarios) {
  const rows = [["estimated", seconds(it.iteration_time_s)]];
  for (const name of scenarios)
    if (it.simulated[name])
      rows.push([name, `${seconds(it.simulated[name].mean_s)}, longest ${seconds(it.simulated[name].max_s)}`]);
  for (const [name, value] of Object.entries(it.decisions ?? {})) rows.push([name, String(value)]);
  return rows;
}

function finalistColumns(finalists, scenarios) {
  const columns = [
    { name: "stages × replicas", text: (it, i) => `${shapeOf(it)}${i === 0 && finalists.length > 1 ? ",\u00a0chosen" : ""}` },
    { name: "devices", number: true, text: (it) => count(it.devices) },
    { name: "estimated", number: true, text: (it) => seconds(it.iteration_time_s) },
  ];
  for (const name of scenarios)
    for (const [key, words] of [["mean_s", "mean"], ["p95_s", "p95"], ["max_s", "longest"]])
      columns.push({ name: `${name}, ${words}`, number: true, text: (it) => (it.simulated[name] ? seconds(it.simulated[name][key]) : "") });
  if (finalists.some((it) => it.migration_s !== undefined))
    columns.push({ name: "migration", number: true, text: (it) => (it.migration_s === undefined ? "" : seconds(it.migration_s)) });
  const decisions = [...new Set(finalists.flatMap((it) => Object.keys(it.decisions ?? {})))];
  for (const name of decisions) columns.push({ name, text: (it) => String(it.decisions?.[name] ?? "") });
  return columns;
}

function finalistTitle(finalists, scenarios) {
  if (finalists.length === 1) return "The plan under each scenario";
  return scenarios.length > 1 ? "Finalists and scenarios" : "Finalists";
}

function showFinalists(report) {
  const finalists = report.document.plan?.finalists ?? [];
  const scenarios = scenarioNames(finalists);
  if (!scenarios.length) return;
  const section = addSection("finalists", finalistTitle(finalists, scenarios), "Finalists",
    "The best by the objective first. Rings: estimate. Dots: simulated mean, with a line to the longest iteration.");
  if (scenarios.length > 1)
    addLegend(section, scenarios.map((text, i) => ({ text, background: scenarioColors[i % scenarioColors.length], round: true })));
  const box = section.append("div").attr("class", "chart");
  onWidth(box.node(), (width) => drawFinalists(box, finalists, scenarios, width));
  addTable(section.append("div").attr("class", "chart scroll").attr("tabindex", 0).attr("role", "region").attr("aria-label", "Finalists"),
    "Time of an iteration", finalistColumns(finalists, scenarios), finalists);
}
