// Sections of dtfm-compare: speed and cost of each scheme under each scenario, layouts and assumptions.

/** What rates and costs count: that of the first run. Without a run there are none. */
const unitOf = ({ schemes }) => countedIn(schemes.find((scheme) => scheme.runs.length)?.runs[0]);

/** Numbers have the same digits as in the table that the program prints. */
const schemeColumns = (comparison) => [
  { name: "scheme", text: (row) => row.scheme },
  { name: "s per batch", number: true, text: ({ run }) => ifKnown(run.seconds_per_batch, (value) => grouped(significant(value, 6))) },
  { name: `${unitOf(comparison)}/s`, number: true, text: ({ run }) => ifKnown(rateOf(run), groupedRate) },
  { name: "time", number: true, text: ({ run }) => ifKnown(run.time_ratio, timeRatio) },
  { name: `USD/M ${unitOf(comparison)}`, number: true, text: ({ run }) => ifKnown(costOf(run), (value) => significant(value, 4)) },
  { name: "sent per iteration", number: true, text: ({ run, why }) => (why === undefined && run.iterations ? bytes(run.sent_bytes / run.iterations) : "–") },
  { name: "layout", text: (row) => row.why ?? row.layout.description + (row.run.stopped ? `; stopped: ${row.run.stopped}` : "") },
];
const ifKnown = (value, format) => (typeof value === "number" ? format(value) : "–");
const groupedRate = (value) => grouped(significant(value, 6));
const timeRatio = (value) => `${value.toFixed(2)}\u00a0×`;

/** Why a scheme has no numbers under a scenario; undefined if it has. */
function whyNone(scheme, run) {
  if (scheme.no_layout_reason) return `no layout: ${scheme.no_layout_reason}`;
  return rateOf(run) === null ? `no result: ${run.stopped}` : undefined;
}

/** Complete runs come before those that stopped early, whose rate covers only a part; schemes without numbers are last. */
const rank = ({ run }) => (typeof rateOf(run) !== "number" ? 2 : run.stopped ? 1 : 0);

/** {words, rows} for every scenario, the fastest scheme first; a row is a scheme with its `run`, or `why` it has no numbers. */
function scenariosOf({ schemes }) {
  const runs = schemes.find((scheme) => scheme.runs.length)?.runs ?? [{ scenario: null }];
  return runs.map(({ scenario }, i) => {
    const rows = schemes.map((scheme) => ({ ...scheme, run: scheme.runs[i] ?? {}, why: whyNone(scheme, scheme.runs[i]) }));
    return { words: i === 0 ? "nominal" : `scenario ${scenario ?? i}`, rows: d3.sort(rows, rank, (row) => -(rateOf(row.run) ?? 0)) };
  });
}

/** The tiles of the summary. */
function comparisonTiles(comparison) {
  const [first] = comparison.schemes;
  const scenarios = scenariosOf(comparison);
  const tiles = scenarios.filter(({ rows }) => rateOf(rows[0]?.run)).map(({ words, rows: [{ scheme, run }] }) => {
    const ratio = scheme === first.scheme || !run.time_ratio ? "" : `, ${timeRatio(run.time_ratio)} the time of ${first.scheme}`;
    return { name: `Fastest, ${words}`, value: scheme, more: `${groupedRate(rateOf(run))} ${countedIn(run)}/s${ratio}` };
  });
  const [{ words, rows }] = scenarios;
  const cheapest = d3.least(rows.filter(({ run }) => costOf(run)), ({ run }) => costOf(run));
  if (cheapest)
    tiles.push({ name: `Cheapest, ${words}`, value: cheapest.scheme, more: `${dollars(costOf(cheapest.run))} per million ${countedIn(cheapest.run)}` });
  const running = rows.filter(({ why }) => why === undefined).length;
  return [...tiles, { name: "Schemes with a result", value: `${running} of ${rows.length}`, more: words }];
}

/** In rows without numbers, extends the last cell, which gives the reason, over the columns of numbers. */
function spreadReasons(lines, columns) {
  lines.selectAll("td.number").remove();
  lines.select("td:last-child").attr("colspan", columns.length - 1);
}

/**
 * Adds a panel of bars for each scenario, side by side if there is room, with the same scale and the same order of
 * schemes: the best of the first panel first. A line marks the value of the first scheme of the comparison.
 */
function addPanels(section, comparison, panels, { column, value, isMoreBetter, why }) {
  const { schemes: [first] } = comparison;
  const allColumns = schemeColumns(comparison);
  const box = section.append("div").attr("class", "panels chart");
  const most = d3.max(panels, ({ rows }) => d3.max(rows, value));
  const order = d3.sort(panels[0].rows, rank, (row) => (value(row) ? (isMoreBetter ? -1 : 1) * value(row) : Infinity)).map(({ scheme }) => scheme);
  for (const { words, rows } of panels) {
    const columns = [allColumns[0], allColumns[column], { name: "", text: (row) => (value(row) ? "" : why(row)) }];
    const table = addTable(box.append("div"), words, columns, d3.sort(rows, ({ scheme }) => order.indexOf(scheme)));
    const lines = table.selectAll("tbody tr").classed("first-scheme", ({ scheme }) => scheme === first.scheme);
    const reference = value(rows.find(({ scheme }) => scheme === first.scheme));
    addBars(table, (row) => (value(row) ? value(row) / most : undefined), reference ? reference / most : undefined);
    spreadReasons(lines.filter((row) => !value(row)), columns);
    addTooltip(lines, ({ scheme }) => scheme, (row) => allColumns.slice(1).map(({ name, text }) => [name, text(row)]));
  }
}

function showSpeed({ document: { comparison } }) {
  if (!comparison?.schemes.length) return;
  const section = addSection("speed", "How fast each scheme trains", "Speed",
    `${unitOf(comparison) === "images" ? "Images" : "Tokens"} per second for the same job on the same machines; longer is better. The line marks ${comparison.schemes[0].scheme}. Assumptions are listed below.`);
  addPanels(section, comparison, scenariosOf(comparison), { column: 2, value: ({ run }) => rateOf(run),
    isMoreBetter: true, why: (row) => row.why });
}

function showCost({ document: { comparison } }) {
  if (!comparison?.schemes.some(({ runs }) => runs.some((run) => costOf(run)))) return;
  const section = addSection("cost", `Cost per million ${unitOf(comparison)}`, "Cost",
    `USD for the devices that a scheme uses; shorter is better. The line marks ${comparison.schemes[0].scheme}.`);
  addPanels(section, comparison, scenariosOf(comparison), { column: 4, value: ({ run }) => costOf(run),
    isMoreBetter: false, why: ({ why }) => (why === undefined ? "the price of a device is not known" : "no result") });
}

function addSchemeTable(section, caption, columns, rows) {
  const box = section.append("div").attr("class", "chart scroll whole").attr("tabindex", 0).attr("role", "region").attr("aria-label", caption);
  const table = addTable(box, caption, columns, rows).attr("class", "schemes");
  spreadReasons(table.selectAll("tbody tr").filter(({ why }) => why !== undefined), columns);
}

/** The factors by which the plan is faster than each scheme that trains the same way. */
function showSpeedups({ document: { comparison } }) {
  if (!comparison?.schemes.length || !comparison.speedups.length) return;
  const section = addSection("speedups", "Why the plan is faster", "Speed-ups",
    `Total: time of the scheme ÷ time of ${comparison.schemes[0].scheme}. It is the product of three factors: planning for the scheme's schedule and collective (placement), ` +
    `then changing to the schedule of ${comparison.schemes[0].scheme} (schedule), then to its collective with its sharding (collective).`);
  addSchemeTable(section, plural(comparison.speedups.length, "scheme"), [
    { name: "scheme", text: (it) => it.scheme },
    ...["total", "placement", "schedule", "collective"].map((key) => ({ name: key, number: true, text: (it) => `${it[key].toFixed(2)} ×` })),
  ], comparison.speedups);
}

function showSchemes({ document: { comparison } }) {
  if (!comparison?.schemes.length) return;
  const [first] = comparison.schemes;
  const section = addSection("schemes", "All numbers and layouts", "Numbers",
    `Time is per batch, relative to ${first.scheme}. Each layout is the fastest one of the scheme that fits in memory: ` +
    "tp devices per stage, pp stages, dp pipelines.");
  for (const { words, rows } of scenariosOf(comparison))
    addSchemeTable(section, words, schemeColumns(comparison), rows);
}

function showAssumptions({ document: { comparison } }) {
  if (!comparison?.schemes.length) return;
  const section = addSection("assumptions", "Schemes and their assumptions", "Assumptions", "Layouts: how many fit in memory, of those that were tried.");
  addSchemeTable(section, plural(comparison.schemes.length, "scheme"), [
    { name: "scheme", text: (it) => it.scheme },
    { name: "layouts", number: true, text: ({ layout }) => `${count(layout.fitting)} of ${count(layout.tried)}` },
    { name: "description", text: (it) => it.description },
    { name: "assumptions", text: (it) => it.assumptions },
  ], comparison.schemes);
}
