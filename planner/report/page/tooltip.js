// A tooltip next to the pointer or the focused element.

const tooltip = {
  /** `rows`: [name, value] pairs. */
  show(event, title, rows) {
    const box = d3.select("#tooltip").attr("hidden", null);
    box.selectAll("*").remove();
    box.append("strong").text(title);
    const lines = box.append("table").selectAll("tr").data(rows).join("tr");
    lines.append("th").text(([name]) => name);
    lines.append("td").text(([, value]) => value);
    this.place(event, box.node());
  },
  place(event, node) {
    const target = event.target.getBoundingClientRect();
    const x = event.clientX ?? target.right;
    const y = event.clientY ?? target.bottom;
    const { width, height } = node.getBoundingClientRect();
    const beside = x + 16 + width > window.innerWidth ? Math.max(4, x - 16 - width) : x + 16;
    const below = y + 16 + height > window.innerHeight ? Math.max(4, y - 16 - height) : y + 16;
    node.style.left = `${beside}px`;
    node.style.top = `${below}px`;
  },
  hide() {
    d3.select("#tooltip").attr("hidden", true);
  },
};

/** Adds a tooltip to the elements of a selection; `rows` and `title` are functions of the datum. */
function addTooltip(selection, title, rows) {
  const show = (event, datum) => tooltip.show(event, title(datum), rows(datum));
  selection.on("pointermove", show).on("pointerleave", () => tooltip.hide())
    .on("focus", show).on("blur", () => tooltip.hide());
}
