// Sections, tables and legends. All text is inserted as text, never as HTML.

/** Adds a section with a heading, an optional note below it, and an entry with its short title in the contents. */
function addSection(id, title, shortTitle, note) {
  const section = d3.select("#report").append("section").attr("id", id).attr("aria-labelledby", `${id}-title`);
  section.append("h2").attr("id", `${id}-title`).text(title);
  if (note) section.append("p").attr("class", "note").text(note);
  d3.select("#contents").append("a").attr("href", `#${id}`).text(shortTitle);
  return section;
}

/** `columns`: {name, number?: true, text: row => string}; the first one names the row. */
function addTable(parent, caption, columns, rows) {
  const table = parent.append("table");
  table.append("caption").text(caption);
  const style = (column) => (column.number ? "number" : null);
  table.append("thead").append("tr").selectAll("th").data(columns).join("th")
    .attr("scope", "col").attr("class", style).text((column) => column.name);
  const lines = table.append("tbody").selectAll("tr").data(rows).join("tr");
  lines.each(function (row, index) {
    columns.forEach((column, i) => {
      const cell = d3.select(this).append(i === 0 ? "th" : "td").attr("class", style(column));
      if (i === 0) cell.attr("scope", "row");
      cell.text(column.text(row, index));
    });
  });
  return table;
}

/** Adds a bar of length share(row), from 0 to 1, to the last cell of every row, and a line at the share `mark`, unless undefined. */
function addBars(table, share, mark) {
  table.selectAll("tbody tr").each(function (row) {
    if (share(row) === undefined) return;
    const cell = d3.select(this).select("td:last-child").attr("class", "bar-cell").append("div").attr("class", "track");
    cell.append("div").attr("class", "share").style("width", `${100 * share(row)}%`);
    if (mark !== undefined) cell.append("div").attr("class", "mark").style("left", `${100 * mark}%`);
  });
}

/** Adds a collapsed table with the numbers of a chart, for accessibility and copying. */
function addDetails(parent, caption, columns, rows, most = 1100) {
  const details = parent.append("details");
  details.append("summary").text(`Table: ${caption}`);
  const box = details.append("div").attr("class", "scroll").attr("tabindex", 0)
    .attr("role", "region").attr("aria-label", caption);
  const more = rows.length > most ? `, the first ${count(most)} of ${count(rows.length)}` : "";
  addTable(box, caption + more, columns, rows.slice(0, most));
}

/** `items`: {text, background, round?}. */
function addLegend(parent, items) {
  const entries = parent.append("div").attr("class", "legend").selectAll("span").data(items).join("span")
    .attr("class", "item");
  entries.append("span").attr("class", (item) => (item.round ? "swatch round" : "swatch"))
    .style("background", (item) => item.background);
  entries.append("span").text((item) => item.text);
}

/** Calls draw(width) now and whenever the width of `node` changes. */
function onWidth(node, draw) {
  let last = 0;
  new ResizeObserver(([entry]) => {
    const width = Math.floor(entry.contentRect.width);
    if (width === last || width === 0) return;
    last = width;
    draw(width);
  }).observe(node);
}

/** Replaces the picture in `box` by an empty one of the given size. */
function newPicture(box, width, height, label) {
  box.selectAll("svg").remove();
  return box.append("svg").attr("viewBox", `0 0 ${width} ${height}`).attr("width", width).attr("height", height)
    .attr("role", "img").attr("aria-label", label);
}

/** Domain for an axis of numbers ≥ 0, with margins, and wide enough that rounding is invisible. */
function roomy(values) {
  const [low, high] = d3.extent(values);
  const room = 0.1 * Math.max(high - low, 0.05 * high);
  return [Math.max(0, low - room), high + room];
}

/** `text` truncated to `most` characters. */
const shortened = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
