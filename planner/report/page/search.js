// Progress of the search: the best plan by the number of evaluations, and the lower bound.

/** Factor from the score of the search to the unit of the bound: cost per iteration to cost per million tokens or images. */
function scoreFactor({ objective, estimate }) {
  if (objective !== "cost-per-token") return 1;
  return 1e6 / (rateOf(estimate) * estimate.iteration_time_s);
}

function scoreUnit({ objective, estimate, lower_bound: bound }) {
  if (objective === "cost-per-token") return `USD per million ${countedIn(estimate)}`;
  return objective === "device-efficiency" ? "devices × s" : bound?.unit ?? "s";
}

/** Draws a step for each better plan; the last one extends to the end of the search. */
function drawConvergence(box, points, bound, format, unit, width) {
  const [height, left, bottom, right] = [300, 64, 40, 20];
  const picture = newPicture(box, width, height, "Best plan by number of evaluations");
  const x = d3.scaleLog([Math.max(1, points[0][0] / 2), Math.max(2, points[points.length - 1][0])], [left, width - right]);
  const values = [...points.map(([, value]) => value), ...(bound === undefined ? [] : [bound])];
  const y = d3.scaleLinear(roomy(values), [height - bottom, 14]).nice();
  picture.append("g").attr("class", "axis").attr("transform", `translate(0,${height - bottom})`)
    .call(d3.axisBottom(x).ticks(Math.max(2, width / 160), "~s"));
  picture.append("g").attr("class", "axis").attr("transform", `translate(${left},0)`)
    .call(d3.axisLeft(y).ticks(5).tickSize(-(width - left - right))).select(".domain").remove();
  picture.append("text").attr("class", "quiet").attr("x", width - right).attr("y", height - 6).attr("text-anchor", "end").text(width < 500 ? "evaluations (log)" : "evaluations of plans and of changes to plans (logarithmic)");
  picture.append("text").attr("class", "quiet").attr("x", 4).attr("y", 10).text(unit);
  if (bound !== undefined) {
    picture.append("path").attr("class", "bound").attr("d", `M${left},${y(bound)}H${width - right}`)
      .style("stroke", "var(--network)").style("stroke-width", "1.5px").style("stroke-dasharray", "5 4");
    picture.append("text").attr("class", "halo").attr("x", width - right).attr("y", y(bound) - 6).attr("text-anchor", "end").text(`lower bound ${format(bound)}`);
  }
  const line = d3.line().x(([at]) => x(Math.max(1, at))).y(([, value]) => y(value)).curve(d3.curveStepAfter);
  picture.append("path").attr("class", "convergence").attr("d", line(points)).attr("fill", "none")
    .style("stroke", "var(--accent)").style("stroke-width", "2px");
  const marks = picture.append("g").selectAll("circle").data(points.slice(0, -1)).join("circle").attr("class", "improvement")
    .attr("cx", ([at]) => x(Math.max(1, at))).attr("cy", ([, value]) => y(value)).attr("r", 4).style("fill", "var(--accent)");
  addTooltip(marks, ([, value]) => format(value), ([at]) => [["after", `${count(at)} evaluations`]]);
}

function showSearch(report) {
  const { plan } = report.document;
  const { search, lower_bound: bound } = plan ?? {};
  if (!search?.convergence?.length) return;
  const factor = scoreFactor(plan);
  const unit = scoreUnit(plan);
  const format = unit === "s" ? seconds : (value) => `${significant(value, 5)} ${unit}`;
  const steps = search.convergence.map(([at, value]) => [at, value * factor]);
  const points = [...steps, [Math.max(search.evaluations, steps[steps.length - 1][0]), steps[steps.length - 1][1]]];
  const section = addSection("search", "Progress of the search", "Search",
    `Strategy ${search.strategy}, seed ${search.seed}: ${count(search.evaluations)} evaluations of plans and of changes to plans; stopped: ${search.stopped}.` +
    (bound ? ` No plan is below the bound: ${bound.method}.` : ""));
  const box = section.append("div").attr("class", "chart");
  onWidth(box.node(), (width) => drawConvergence(box, points, bound?.value, format, unit, width));
  addDetails(section, "the best plans of the search", [
    { name: "after", number: true, text: ([at]) => count(at) }, { name: "estimated", number: true, text: ([, value]) => format(value) },
  ], steps);
}
