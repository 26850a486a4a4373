// The critical path of the last iteration, summed by what its tasks do.

const maxSteps = 12;

function showPath(report) {
  const path = report.document.critical_path;
  if (!path) return;
  const { kinds } = path;
  const all = kinds.length + (path.omitted?.kinds ?? 0);
  const section = addSection("path", "Critical path of an iteration", "Critical path",
    `The last iteration of ${report.runName()}, ${plural(path.steps, "step")} in ${seconds(path.seconds)}: ` +
    "if any of these steps took longer, so would the iteration." +
    (all > maxSteps ? ` The longest ${maxSteps} kinds of steps of ${count(all)}.` : ""));
  const table = addTable(section.append("div").attr("class", "chart scroll"), "Steps, summed by what they do", [
    { name: "step", text: (it) => it.text }, { name: "tasks", number: true, text: (it) => count(it.tasks) },
    { name: "time", number: true, text: (it) => seconds(it.seconds) }, { name: "share", number: true, text: (it) => percent(it.share) },
    { name: "", text: () => "" },
  ], kinds.slice(0, maxSteps));
  addBars(table, (it) => it.seconds / (kinds[0].seconds || 1));
}
