// The summary section: title, tiles, warnings and settings.

function showTitle(report) {
  const { plan, simulation, comparison, topology } = report.document;
  const job = plan?.job?.name ?? simulation?.job ?? comparison?.job ?? "";
  d3.select("#program").text(report.document.program);
  d3.select("#title").text(`${topology.name} · ${job}`);
  const words = [plural(report.deviceCount, "device"), plural(report.sites.length, "site")];
  if (plan) words.push(formatShape(plan));
  if (comparison) words.push(plural(comparison.schemes.length, "scheme"), `batch ${count(comparison.batch)}`);
  if (simulation?.scenario) words.push(`scenario ${simulation.scenario}`);
  d3.select("#subtitle").text(words.join(", "));
}

function formatShape({ parallelism, pipelines }) {
  const even = pipelines.every((pipeline) => pipeline.stages.length === parallelism.pipeline);
  const shape = `${even ? "" : "up to "}${plural(parallelism.pipeline, "stage")} × ${plural(parallelism.data, "pipeline")}`;
  const tensor = parallelism.tensor > 1 ? ` × ${even ? "" : "up to "}${parallelism.tensor} devices per stage` : "";
  const sharding = parallelism.optimizer_sharding ? `, ${parallelism.optimizer_sharding}` : "";
  return `${shape}${tensor}, ${parallelism.schedule}, ${parallelism.gradient_sync}${sharding}`;
}

/** The tiles, {name, value, more}, for everything that is known. */
function summaryTiles(report) {
  const { plan, simulation } = report.document;
  const estimate = plan?.estimate ?? {};
  const mean = report.simulatedSeconds();
  const tiles = [];
  const add = (name, value, more = "") => tiles.push({ name, value, more });
  if (mean !== undefined) add("Iteration, simulated", seconds(mean), formatSpread(report));
  if (estimate.iteration_time_s !== undefined)
    add("Iteration, estimated", seconds(estimate.iteration_time_s));
  if (estimate.comm_cost)
    add("Communication", seconds(estimate.comm_cost.total_s),
      `data-parallel ${seconds(estimate.comm_cost.data_parallel_s)}, pipeline ${seconds(estimate.comm_cost.pipeline_parallel_s)}`);
  const speed = speedOf(report);
  if (speed) add(`${speed.unit} per second`, count(Math.round(speed.rate)), speed.words);
  if (typeof costOf(estimate) === "number")
    add(`A million ${countedIn(estimate)}`, dollars(costOf(estimate)), `estimated${formatCostParts(estimate.cost_parts)}`);
  if (plan?.lower_bound)
    add("Gap to the lower bound", percent(plan.lower_bound.gap), `no plan is below ${formatBound(plan.lower_bound)}`);
  if (simulation?.bubble !== undefined && simulation.iterations.length)
    add("Not computing", percent(simulation.bubble), `of the devices' time${simulation.samples ? " in the first of the runs" : ""}`);
  return tiles;
}

/** {unit, rate, words}: tokens or images per second of the estimate, or else of all runs or the only one; undefined: unknown. */
function speedOf({ document: { plan, simulation } }) {
  const speed = (result, words) => ({ unit: countedIn(result) === "images" ? "Images" : "Tokens", rate: rateOf(result), words });
  const formatFlops = ({ model_flops_per_s }) => (model_flops_per_s ? flopsPerSecond(model_flops_per_s).replace(" ", " model ") : "");
  if (rateOf(plan?.estimate)) {
    const flops = formatFlops(plan.estimate);
    return speed(plan.estimate, flops ? `estimated: ${flops}` : "estimated");
  }
  if (simulation?.samples) {
    const rate = rateOf(simulation.samples)?.mean;
    return rate ? { ...speed(simulation.samples, `mean of ${plural(simulation.samples.runs, "run")}`), rate } : undefined;
  }
  return rateOf(simulation) ? speed(simulation, formatFlops(simulation)) : undefined;
}

const formatBound = ({ value, unit }) => (unit === "s" ? seconds(value) : `${significant(value, 4)} ${unit}`);

const formatCostParts = (parts) =>
  (parts?.egress > 0 ? `: devices ${dollars(parts.devices)}, egress ${dollars(parts.egress)}` : "");

function formatBreakdown(breakdown) {
  const parts = Object.entries(breakdown).filter(([, value]) => value > 0);
  return parts.map(([name, value]) => `${name.replaceAll("_", " ")} ${seconds(value)}`).join(", ");
}

function formatSpread(report) {
  const { simulation, plan } = report.document;
  if (report.simulatedSeconds() === null) return "no iteration is completed";
  // With many runs, the interval of the simulation is that of the first run only.
  const interval = simulation?.samples ? undefined : simulation?.iteration_time_interval_s ?? plan?.estimate?.iteration_time_interval_s;
  if (interval) return `${seconds(interval.low)} to ${seconds(interval.high)} at ${percent(interval.level)}`;
  const times = simulation?.samples?.iteration_time_s ?? simulation?.iteration_time_s;
  if (!times || times.min === times.max) return "";
  return `p95 ${seconds(times.p95)}, ${seconds(times.min)} to ${seconds(times.max)}`;
}

/** Texts of all warnings and notes. */
function warningsOf(report) {
  const { plan, simulation, comparison } = report.document;
  const warnings = [...(plan?.warnings ?? []), ...(simulation?.notes ?? []), ...(comparison?.stopped ? [comparison.stopped] : [])];
  if (simulation?.stopped) warnings.push(`stopped early: ${simulation.stopped}`);
  if (simulation?.out_of_memory?.length)
    warnings.push(`the plan does not fit in the memory of ${simulation.out_of_memory.slice(0, 8).join(", ")}` +
      (simulation.out_of_memory.length > 8 ? ` and ${simulation.out_of_memory.length - 8} more` : ""));
  return [...new Set(warnings)];
}

function showSummary(report) {
  const { comparison } = report.document;
  const section = addSection("summary", "Summary", "Summary");
  const tiles = section.append("dl").attr("class", "tiles chart").selectAll("div")
    .data(comparison ? comparisonTiles(comparison) : summaryTiles(report)).join("div")
    .attr("class", "tile");
  tiles.append("dt").text(({ name }) => name);
  const values = tiles.append("dd");
  values.append("div").attr("class", "value").text(({ value }) => value);
  values.append("div").attr("class", "more").text(({ more }) => more);
  const warnings = warningsOf(report);
  if (warnings.length)
    section.append("ul").attr("class", "warnings").selectAll("li").data(warnings).join("li").text((text) => text);
  addFacts(section, report);
}

/** Adds objective, settings, and what determines the time. */
function addFacts(section, { document }) {
  const { plan, simulation } = document;
  const rows = [];
  const job = plan?.job;
  if (plan?.objective) rows.push(["Objective", plan.objective]);
  const breakdown = plan?.estimate?.breakdown;
  if (breakdown) rows.push(["Estimated time", formatBreakdown(breakdown)]);
  for (const [name, key] of [["Model", "model"], ["Training", "training"], ["Parallelism", "parallelism"], ["Compression", "compression"]]) {
    const words = formatSettings(job?.[key] ?? {});
    if (words) rows.push([name, words]);
  }
  if (plan?.warm_start) rows.push(["Warm start from", formatWarmStart(plan.warm_start)]);
  if (plan?.advice) rows.push(["Advice", formatAdvice(plan.advice)]);
  if (simulation?.lost_work_s > 0) rows.push(["Lost work", `${seconds(simulation.lost_work_s)} of compute, summed over devices${simulation.samples ? ", in the first of the runs" : ""}`]);
  if (!rows.length) return;
  const list = section.append("dl").attr("class", "facts chart").selectAll("div").data(rows).join("div");
  list.append("dt").text(([name]) => name);
  list.append("dd").text(([, value]) => value);
}

/** Settings that the title of the page already shows. */
const titled = new Set(["pipeline", "data", "tensor", "schedule", "gradient_sync", "optimizer_sharding"]);

const formatSettings = (settings) => Object.entries(settings).filter(([name]) => !titled.has(name))
  .map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`).join(", ");

function formatWarmStart(warm) {
  if (warm.keeps_plan) return `${warm.plan}, which is kept`;
  const migration = `${bytes(warm.migration.bytes)} to migrate${warm.migration.seconds === undefined ? "" : ` in ${seconds(warm.migration.seconds)}`}`;
  const paid = warm.break_even_iterations ? `; breaks even after ${plural(warm.break_even_iterations, "iteration")}` : "";
  return `${warm.plan}: ${migration}${paid}`;
}

function formatAdvice({ plan, gain, decisions }) {
  const shape = `${plan.pipeline} × ${plan.data} on ${plural(plan.devices, "device")}`;
  if (gain === null) return `${shape}, ${decisions}`;
  return gain > 0 ? `${percent(gain)} less with ${shape}, ${decisions}` : "no better plan found";
}
