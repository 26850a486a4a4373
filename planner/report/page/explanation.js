// With --explain: the estimated bottlenecks of an iteration, and the effect of single changes.

const maxChanges = 10;

function showExplanation(report) {
  const explanation = report.document.plan?.explanation;
  if (!explanation) return;
  const section = addSection("explanation", "Bottlenecks, and changes that would help", "What would help",
    "Estimated for each change on its own, with the plan otherwise unchanged.");
  section.append("ul").attr("class", "chart").selectAll("li").data([...explanation.summary, ...explanation.scaling]).join("li")
    .text((words) => words);
  const helpful = explanation.changes.filter(({ gain, fits }) => fits && gain > 0);
  if (!helpful.length) return;
  const changes = d3.sort(helpful, (a, b) => d3.descending(a.gain, b.gain)).slice(0, maxChanges);
  const table = addTable(section.append("div").attr("class", "chart scroll"), "Changes that would help most", [
    { name: "change", text: (it) => it.description }, { name: "iteration", number: true, text: (it) => seconds(it.iteration_time_s) },
    { name: "less time", number: true, text: (it) => percent(it.gain) }, { name: "", text: () => "" },
  ], changes);
  addBars(table, (it) => it.gain / changes[0].gain);
}
