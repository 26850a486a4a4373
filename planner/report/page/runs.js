// Iteration times of one run, or mean iteration times of many runs; and the events of a run.

const runSizes = { height: 220, left: 64, bottom: 36, right: 16 };

/** Draws `values` in seconds as dots over 0 … n−1, and `marks` {value, text} as horizontal lines. */
function drawRuns(box, values, marks, xLabel, width) {
  const { height, left, bottom, right } = runSizes;
  const picture = newPicture(box, width, height, `Time of an iteration: ${xLabel}`);
  const x = d3.scaleLinear([-0.5, values.length - 0.5], [left, width - right]);
  const y = d3.scaleLinear(roomy(values), [height - bottom, 10]).nice();
  picture.append("g").attr("class", "axis").attr("transform", `translate(0,${height - bottom})`)
    .call(d3.axisBottom(x).ticks(Math.min(values.length, Math.max(2, width / 110))).tickFormat((at) => (Number.isInteger(at) ? count(at) : "")));
  picture.append("g").attr("class", "axis").attr("transform", `translate(${left},0)`)
    .call(d3.axisLeft(y).ticks(4).tickFormat((value) => `${value} s`).tickSize(-(width - left - right))).select(".domain").remove();
  picture.append("text").attr("class", "quiet").attr("x", width - right).attr("y", height - 4).attr("text-anchor", "end").text(xLabel);
  for (const { value, text } of marks) {
    picture.append("path").attr("d", `M${left},${y(value)}H${width - right}`).style("stroke", "var(--network)").style("stroke-dasharray", "5 4");
    picture.append("text").attr("class", "halo").attr("x", width - right).attr("y", y(value) - 5).attr("text-anchor", "end").text(text);
  }
  const dots = picture.append("g").selectAll("circle").data(values).join("circle").attr("class", "run")
    .attr("cx", (_, i) => x(i)).attr("cy", (value) => y(value)).attr("r", values.length > 300 ? 2 : 3.5).style("fill", "var(--accent)");
  addTooltip(dots, (value) => seconds(value), () => []);
}

function showSamples(samples) {
  const times = samples.iteration_time_s;
  const left = samples.omitted?.mean_iteration_time_s;
  const section = addSection("samples", "Distribution over runs", "Distribution",
    `Mean time of an iteration in each of ${plural(samples.runs, "run")}, in order of size: p50 ${seconds(times.p50)}, p95 ${seconds(times.p95)}, p99 ${seconds(times.p99)}.` +
    (left ? ` ${count(left)} evenly spread points are not drawn.` : ""));
  const values = d3.sort(samples.mean_iteration_time_s);
  const box = section.append("div").attr("class", "chart");
  const marks = [{ value: times.p50, text: `p50 ${seconds(times.p50)}` }, { value: times.p95, text: `p95 ${seconds(times.p95)}` }];
  onWidth(box.node(), (width) => drawRuns(box, values, marks, "runs, the fastest first", width));
  addDetails(section, "mean times of the runs", [
    { name: "run, by size", number: true, text: (_, i) => count(i) }, { name: "mean iteration", number: true, text: (value) => seconds(value) },
  ], values);
}

function showRuns(report) {
  const { simulation } = report.document;
  if (simulation?.samples?.mean_iteration_time_s?.length) showSamples(simulation.samples);
  if (!simulation || (simulation.iterations.length < 2 && !simulation.events.length)) return;
  const left = simulation.omitted?.iterations;
  const section = addSection("iterations", `Iterations of ${report.runName()}`, "Iterations",
    `${plural(simulation.iterations.length + (left ?? 0), "iteration")} in ${seconds(simulation.length_s)} of simulated time${left ? `; the last ${count(left)} are not drawn` : ""}.` +
    (simulation.iterations.length > 1 ? " The first, in which the pipelines warm up, is drawn, but not in the mean." : ""));
  const durations = simulation.iterations.map((it) => it.duration_s);
  if (durations.length) {
    const box = section.append("div").attr("class", "chart");
    onWidth(box.node(), (width) => drawRuns(box, durations, [], "iterations", width));
    addDetails(section, "iterations", [
      { name: "iteration", number: true, text: (_, i) => count(i) }, { name: "from", number: true, text: (it) => seconds(it.start_s) },
      { name: "to", number: true, text: (it) => seconds(it.end_s) }, { name: "takes", number: true, text: (it) => seconds(it.duration_s) },
    ], simulation.iterations);
  }
  if (simulation.events.length)
    addTable(section.append("div").attr("class", "chart scroll").attr("tabindex", 0).attr("role", "region").attr("aria-label", "Events"),
      "Events" + (simulation.omitted?.events ? `, without the last ${count(simulation.omitted.events)}` : ""), [
        { name: "at", text: (it) => seconds(it.date_s) }, { name: "event", text: (it) => it.text }], simulation.events);
}
