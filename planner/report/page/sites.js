// The graph of sites: distances by latency, edges by the traffic of the simulated run.

const graphSizes = { height: 460, most: 300, maxSites: 400, maxNames: 48, ring: 6, margin: 62, iterations: 400 };

/** Force layout in which distances grow with the square root of the latency. The same input gives the same layout. */
function sitePositions(report) {
  const nodes = report.sites.map((site, index) => ({ index, site }));
  const pairs = new Map();
  for (const link of report.links) {
    if (link.from === link.to || link.latency === undefined) continue;
    const key = `${Math.min(link.from, link.to)} ${Math.max(link.from, link.to)}`;
    if (!pairs.has(key)) pairs.set(key, { source: link.from, target: link.to, latency: link.latency[0] });
  }
  const links = [...pairs.values()];
  const longest = Math.sqrt(d3.max(links, (link) => link.latency) ?? 1) || 1;
  const distance = (link) => 30 + 270 * Math.sqrt(link.latency) / longest;
  const force = d3.forceSimulation(nodes)
    .force("link", d3.forceLink(links).distance(distance).strength(links.length ? 1.5 / Math.sqrt(links.length) : 0))
    .force("apart", d3.forceCollide(nodes.length > 20 ? 14 : 26))
    .force("centre", d3.forceCenter(0, 0)).stop();
  if (!links.length) force.force("charge", d3.forceManyBody().strength(-60));
  force.tick(graphSizes.iterations);
  return nodes;
}

/** Positions scaled to fill the picture, transposed if they are higher than wide. */
function fitted(nodes, width, height) {
  const margin = Math.min(graphSizes.margin, width / 6);
  const span = (values) => d3.extent(values);
  let points = nodes.map(({ x, y }) => [x, y]);
  const [[left, right], [low, high]] = [span(points.map(([x]) => x)), span(points.map(([, y]) => y))];
  if (high - low > right - left) points = points.map(([x, y]) => [y, x]);
  const [xs, ys] = [span(points.map(([x]) => x)), span(points.map(([, y]) => y))];
  const scale = Math.min((width - 2 * margin) / (xs[1] - xs[0] || 1), (height - 2 * margin) / (ys[1] - ys[0] || 1), 2.4);
  return points.map(([x, y]) => ({
    x: width / 2 + scale * (x - (xs[0] + xs[1]) / 2),
    y: height / 2 + scale * (y - (ys[0] + ys[1]) / 2),
  }));
}

/** SVG path of a link: an arc bent to one side, so that both directions are visible, or a ring for traffic within a site. */
function edgePath({ from, to }, points, radius) {
  const [a, b] = [points[from], points[to]];
  if (from === to) {
    const r = radius(from) + 4;
    return `M${a.x - r},${a.y}a${r},${r} 0 1 1 ${2 * r},0a${r},${r} 0 1 1 ${-2 * r},0`;
  }
  const bend = 0.13;
  const middle = { x: (a.x + b.x) / 2 - bend * (b.y - a.y), y: (a.y + b.y) / 2 + bend * (b.x - a.x) };
  return `M${a.x},${a.y}Q${middle.x},${middle.y} ${b.x},${b.y}`;
}

function linkTip(report, link) {
  const rows = [];
  if (link.bytes !== undefined) {
    rows.push(["sent", bytes(link.bytes)], ["busy", `${seconds(link.busy_s)}, ${percent(report.busyShare(link))}`]);
    if (link.busy_s > 0) rows.push(["while busy", bitsPerSecond(8 * link.bytes / link.busy_s)]);
  }
  if (link.latency) rows.push(["latency", range(link.latency, seconds)]);
  if (link.bandwidth) rows.push(["bandwidth of a flow", range(link.bandwidth, bitsPerSecond)]);
  return rows;
}

function drawSites(box, report, nodes, edges, width) {
  const height = Math.min(graphSizes.height, 190 + 34 * nodes.length, Math.max(260, width * 0.62));
  const points = fitted(nodes, width, height);
  const picture = newPicture(box, width, height, "Sites and the traffic between them");
  const radius = d3.scaleSqrt([0, d3.max(report.sites, (site) => site.devices)], [4, Math.min(17, width / 32, 70 / Math.sqrt(nodes.length))]);
  const radiusOf = (site) => radius(report.sites[site].devices);
  const thick = d3.scaleSqrt([0, d3.max(edges, (link) => link.bytes ?? 0) || 1], [0.8, Math.min(8, width / 80, 60 / Math.sqrt(edges.length))]);
  const busiest = report.busiest();
  const lines = picture.append("g").selectAll("path").data(d3.sort(edges, (link) => link.bytes ?? 0)).join("path")
    .attr("class", "edge").attr("d", (link) => edgePath(link, points, radiusOf))
    .style("stroke", (link) => (link.bytes ? busyColor(report.busyShare(link) / busiest) : "var(--line)"))
    .style("stroke-width", (link) => `${thick(link.bytes ?? 0)}px`).style("stroke-opacity", edges.length > 100 ? 0.6 : 0.85);
  addTooltip(lines, (link) => `${report.sites[link.from].name} → ${report.sites[link.to].name}`,
    (link) => linkTip(report, link));
  const groups = picture.append("g").selectAll("g").data(report.sites).join("g")
    .attr("class", (_, i) => (report.usedAt(i) > 0 ? "node" : "node idle"))
    .attr("transform", (_, i) => `translate(${points[i].x},${points[i].y})`).attr("tabindex", 0);
  groups.append("circle").attr("r", (_, i) => radiusOf(i)).attr("fill", (_, i) => siteFill(picture, i));
  addSiteNames(groups, report, points, radiusOf, width);
  addTooltip(groups, (site) => site.name, (site) => siteTip(report, report.sites.indexOf(site)));
}

/** Adds names, unless there are too many sites, clear of the rings around the sites. */
function addSiteNames(groups, report, points, radiusOf, width) {
  if (report.sites.length > graphSizes.maxNames) return;
  const names = report.sites.map(({ name }) => shortened(name, width < 500 ? 12 : 22));
  const places = placedLabels(points.map((point, i) => ({ ...point, r: radiusOf(i) + graphSizes.ring, text: names[i] })), width);
  groups.append("text").attr("class", "halo").attr("text-anchor", (_, i) => places[i].anchor)
    .attr("x", (_, i) => places[i].dx).attr("y", (_, i) => places[i].dy).text((_, i) => names[i]);
}

function siteTip(report, site) {
  const rows = [["devices", count(report.sites[site].devices)]];
  if (report.document.plan) rows.push(["in the plan", count(report.usedAt(site))]);
  for (const [gpu, number] of report.gpusAt(site)) rows.push([gpu, `× ${count(number)}`]);
  const inside = report.links.find((link) => link.from === site && link.to === site);
  return inside ? [...rows, ...linkTip(report, inside).map(([name, value]) => [`inside: ${name}`, value])] : rows;
}

function addBusyLegend(section, report) {
  const legend = section.append("div").attr("class", "legend");
  const item = legend.append("span").attr("class", "item");
  item.append("span").text("idle");
  item.append("span").attr("class", "swatch").style("width", "7rem").style("background", `linear-gradient(90deg, ${busyColor(0)}, ${busyColor(1)})`);
  item.append("span").text(`busy ${percent(report.busiest())} of the time; width: bytes; circles: devices; rings: inside a site`);
}

function showSites(report) {
  const isSimulated = report.links.some((link) => link.bytes !== undefined);
  const isByLatency = report.links.some((link) => link.from !== link.to && link.latency !== undefined);
  const notes = [isByLatency ? "The nearer two sites, the shorter the latency between them." : "",
    isSimulated ? `Lines are what ${report.runName()} sent, one for each direction.` : ""];
  const section = addSection("sites", "Sites and links", "Sites", notes.join(" ").trim());
  if (report.sites.length <= graphSizes.maxSites) addGraph(section, report, isSimulated);
  else section.append("p").attr("class", "note").text(`${count(report.sites.length)} sites are too many to draw.`);
  addLinkTable(section, report, isSimulated);
}

function addGraph(section, report, isSimulated) {
  const nodes = sitePositions(report);
  const sent = report.links.filter((link) => link.bytes > 0);
  const all = isSimulated ? sent : report.links.filter((link) => link.from < link.to);
  const edges = d3.sort(all, (a, b) => d3.descending(a.bytes ?? 0, b.bytes ?? 0)).slice(0, graphSizes.most);
  if (edges.length < all.length)
    section.append("p").attr("class", "note").text(`Of ${count(all.length)} lines, only the ${count(edges.length)} with the most traffic are drawn.`);
  const box = section.append("div").attr("class", "chart");
  onWidth(box.node(), (width) => drawSites(box, report, nodes, edges, width));
  if (isSimulated) addBusyLegend(section, report);
}

function addLinkTable(section, report, isSimulated) {
  const known = (value, format) => (value === undefined ? "" : format(value));
  const columns = [{ name: "from → to", text: (link) => `${report.sites[link.from].name} → ${report.sites[link.to].name}` }];
  if (isSimulated)
    columns.push({ name: "bytes", number: true, text: (link) => known(link.bytes, bytes) },
      { name: "busy", number: true, text: (link) => known(link.busy_s, seconds) },
      { name: "busy share", number: true, text: (link) => known(link.busy_s, () => percent(report.busyShare(link))) });
  columns.push({ name: "latency", number: true, text: (link) => known(link.latency, (it) => range(it, seconds)) },
    { name: "bandwidth of a flow", number: true, text: (link) => known(link.bandwidth, (it) => range(it, bitsPerSecond)) });
  addDetails(section, "links between sites", columns, d3.sort(report.links, (a, b) => d3.descending(a.bytes ?? -1, b.bytes ?? -1)));
}
