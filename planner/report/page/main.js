// Reads the document and shows a section for each part of it.

class Report {
  constructor(data) {
    this.document = data;
    const { sites, devices, gpus } = data.topology;
    this.sites = sites;
    this.deviceCount = devices.id.length;
    this.deviceIndex = new Map(devices.id.map((id, index) => [id, index]));
    this.idOf = (device) => devices.id[device];
    this.siteOf = (device) => devices.site[device];
    this.gpuOf = (device) => gpus[devices.gpu[device]];
    this.links = this.joinedLinks();
    this.used = this.usedCounts();
    this.themeListeners = [];
  }

  sitesOf(ids) { return ids.map((id) => this.siteOf(this.deviceIndex.get(id))); }

  /** Links between sites: latency and bandwidth from the topology, joined with the traffic of the run. */
  joinedLinks() {
    const index = new Map(this.sites.map((site, i) => [site.name, i]));
    const links = new Map();
    const at = (from, to) => {
      const key = `${from} ${to}`;
      if (!links.has(key)) links.set(key, { from, to });
      return links.get(key);
    };
    for (const it of this.document.topology.links ?? [])
      Object.assign(at(it.from, it.to), { latency: it.latency_s, bandwidth: it.bandwidth_bps });
    for (const it of this.document.simulation?.links ?? [])
      Object.assign(at(index.get(it.from), index.get(it.to)), { bytes: it.bytes, busy_s: it.busy_s });
    return [...links.values()];
  }

  /** Share of the run in which the link carried traffic. */
  busyShare(link) {
    const { length_s } = this.document.simulation;
    return length_s > 0 ? link.busy_s / length_s : 0;
  }
  busiest() { return d3.max(this.links, (link) => (link.bytes === undefined ? 0 : this.busyShare(link))) || 1; }

  /** Number of used devices per site; in a comparison all devices, because each scheme chooses its own. */
  usedCounts() {
    if (this.document.comparison) return this.sites.map((site) => site.devices);
    const counts = this.sites.map(() => 0);
    for (const device of this.places().keys()) counts[this.siteOf(device)] += 1;
    return counts;
  }
  usedAt(site) { return this.used[site]; }

  gpusAt(site) {
    const { devices } = this.document.topology;
    const here = d3.range(this.deviceCount).filter((i) => devices.site[i] === site && devices.gpu[i] >= 0);
    return d3.rollups(here, (group) => group.length, (i) => this.gpuOf(i));
  }

  /** Map from each device of the plan to its slot: {pipeline, stage, layers, order}. */
  places() {
    const places = new Map();
    (this.document.plan?.pipelines ?? []).forEach(({ stages }, pipeline) =>
      stages.forEach((its, stage) =>
        its.devices.forEach((id) =>
          places.set(this.deviceIndex.get(id), { pipeline, stage, layers: layersOf(its), order: places.size }))));
    return places;
  }

  /**
   * Mean seconds of an iteration: the nominal time in the plan file if the plan was simulated as a finalist, else of the
   * shown run, or of all runs. Null: no iteration ever completes. Undefined: unknown, as for a plan that exceeds memory.
   */
  simulatedSeconds() {
    const { simulation, plan } = this.document;
    const [chosen] = plan?.finalists ?? [];
    if (chosen) return chosen.simulated.nominal?.mean_s;
    const times = simulation?.samples?.iteration_time_s ?? simulation?.iteration_time_s;
    return times?.mean ?? undefined;
  }

  /** Text for the run whose device times, links and critical path are shown. */
  runName() { return this.document.simulation?.samples ? "the first of the runs" : "the simulated run"; }

  onTheme(listener) { this.themeListeners.push(listener); }
  themeChanged() { for (const listener of this.themeListeners) listener(); }
}

const themes = ["auto", "light", "dark"];

/** A button that cycles through the themes; auto follows the system. */
function addThemeButton(report) {
  let current = 0;
  const root = d3.select("html");
  const button = d3.select("#theme");
  const show = () => {
    root.attr("data-theme", themes[current] === "auto" ? null : themes[current]);
    button.text(`Theme: ${themes[current]}`);
    report.themeChanged();
  };
  button.on("click", () => {
    current = (current + 1) % themes.length;
    show();
  });
  for (const query of ["(prefers-color-scheme: dark)", "print"])
    window.matchMedia(query).addEventListener("change", () => report.themeChanged());
  show();
}

/** Shows how the numbers were obtained, and from what. */
function showAbout({ document }) {
  const { plan, simulation, comparison, topology, program } = document;
  const about = d3.select("#about");
  about.append("h2").text("About these numbers");
  const lines = [];
  if (plan) lines.push("Estimated: by closed formulas for warm-up, steady state and cool-down of pipelines, gradient synchronization and contention.");
  if (simulation || comparison) lines.push("Simulated: every computation and message replayed, with concurrent messages sharing links.");
  lines.push(`${document.measured_timeline ? "Only the second timeline is" : "None of this is"} a measurement; layer times are measured, imported or estimated, as specified in the job.`);
  about.selectAll("p.line").data(lines).join("p").attr("class", "line").text((line) => line);
  const facts = [program, `topology ${topology.name}, fingerprint ${topology.fingerprint}`];
  if (plan?.search) facts.push(`strategy ${plan.search.strategy}, seed ${plan.search.seed}`);
  else if (simulation && !plan?.estimate) facts.push(`seed ${simulation.seed}`);
  if (comparison) facts.push(`seed ${comparison.seed}`);
  if (simulation)
    facts.push(`simulated: ${count(simulation.simulator.tasks)} tasks, ${count(simulation.simulator.flows)} messages, ${count(simulation.simulator.events)} events`);
  about.append("p").attr("class", "facts").text(facts.join(" · "));
}

const report = new Report(JSON.parse(document.getElementById("data").textContent));
showTitle(report);
for (const show of [showSummary, showSpeed, showSpeedups, showCost, showSchemes, showAssumptions, showSites, showLayers, showTimeline, showDeviceTime, showPath,
  showExplanation, showMemory, showSearch, showFinalists, showRuns]) show(report);
showAbout(report);
addThemeButton(report);
document.documentElement.dataset.ready = "true";
