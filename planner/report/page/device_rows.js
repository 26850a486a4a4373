// Charts with one bar per device, ordered by site, for time and memory.

const rowSizes = { most: 16, least: 4, named: 10, height: 560, labelWidth: 128, narrowLabelWidth: 84, axisHeight: 22 };

/**
 * `rows`: {label, site (index), parts: [{value, fill}], capacity?: number, tip: [[name, value], …]}, ordered by site;
 * `most`: the value at the right end; `format`: number format of the axis.
 */
function addDeviceRows(parent, label, report, rows, most, format) {
  const box = parent.append("div").attr("class", "chart scroll tall").attr("tabindex", 0)
    .attr("role", "region").attr("aria-label", label);
  onWidth(box.node(), (width) => drawDeviceRows(box, label, report, rows, { width, most, format }));
}

function drawDeviceRows(box, label, report, rows, { width, most, format }) {
  const left = width < 500 ? rowSizes.narrowLabelWidth : rowSizes.labelWidth;
  const step = Math.max(rowSizes.least, Math.min(rowSizes.most, Math.floor(rowSizes.height / rows.length)));
  const top = rowSizes.axisHeight;
  const height = top + rows.length * step + 4;
  const picture = newPicture(box, width, height, label);
  const x = d3.scaleLinear([0, most], [left, width - 24]);
  const axis = d3.axisTop(x).ticks(Math.max(2, width / 120)).tickFormat(format).tickSize(-(height - top));
  picture.append("g").attr("class", "axis").attr("transform", `translate(0,${top})`).call(axis)
    .select(".domain").remove();
  const groups = picture.append("g").selectAll("g").data(rows).join("g").attr("class", "device-row")
    .attr("transform", (_, i) => `translate(0,${top + i * step})`);
  const bar = step >= rowSizes.named ? step - 3 : step - 1;
  groups.each(function (row) {
    let from = 0;
    for (const part of row.parts) {
      d3.select(this).append("rect").attr("class", "bar").attr("x", x(from)).attr("y", 1)
        .attr("width", Math.max(0, x(from + part.value) - x(from))).attr("height", bar).style("fill", part.fill);
      from += part.value;
    }
    if (row.capacity !== undefined)
      d3.select(this).append("path").attr("class", "capacity").attr("d", `M${x(row.capacity)},0v${step - 1}`)
        .style("stroke", "var(--ink)").style("stroke-width", "2px");
  });
  addRowLabels(picture, report, rows, { top, step, left });
  groups.append("rect").attr("width", width).attr("height", step).attr("fill", "none").attr("pointer-events", "all");
  addTooltip(groups, (row) => row.label, (row) => row.tip);
}

/** Adds names of devices if there is room, else of sites, and a stripe in the colour of the site. */
function addRowLabels(picture, report, rows, { top, step, left }) {
  const room = Math.floor((left - 12) / 6.5);
  picture.append("g").selectAll("rect").data(rows).join("rect").attr("x", left - 7)
    .attr("y", (_, i) => top + i * step).attr("width", 4).attr("height", step)
    .style("fill", (row) => siteHue(row.site));
  const labels = step >= rowSizes.named
    ? rows.map((row, i) => ({ text: row.label, i }))
    : rows.map((row, i) => ({ text: report.sites[row.site].name, i }))
      .filter(({ i }) => i === 0 || rows[i].site !== rows[i - 1].site)
      .filter(({ i }, k, all) => k === 0 || (i - all[k - 1].i) * step > 11);
  picture.append("g").selectAll("text").data(labels).join("text").attr("x", left - 12)
    .attr("y", ({ i }) => top + i * step + (step >= rowSizes.named ? step / 2 + 3 : 10)).attr("text-anchor", "end").style("font-size", "11px")
    .text(({ text }) => shortened(text, room));
}

/** Rows ordered by site, then by device index. */
const bySite = (report, rows) => d3.sort(rows, (row) => report.siteOf(row.device), (row) => row.device);
