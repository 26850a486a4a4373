// The chain of tasks that decides how long the last iteration takes, summed by what they do.

const mostSteps = 12;

function pathSums(steps) {
  const sums = new Map();
  for (const { text, tasks, start_s, end_s } of steps) {
    const sum = sums.get(text) ?? { text, tasks: 0, value: 0 };
    sum.tasks += tasks;
    sum.value += end_s - start_s;
    sums.set(text, sum);
  }
  return d3.sort([...sums.values()], (a, b) => d3.descending(a.value, b.value));
}

function showPath(report) {
  const { simulation } = report.document;
  if (!simulation?.critical_path?.length) return;
  const sums = pathSums(simulation.critical_path);
  const total = d3.sum(sums, (it) => it.value);
  const section = addSection("path", "What decides the time of an iteration", "Critical path",
    "The critical path: if one of these steps took longer, so would the iteration." +
    (sums.length > mostSteps ? ` The longest ${mostSteps} kinds of steps of ${count(sums.length)}.` : ""));
  const table = addTable(section.append("div").attr("class", "chart scroll"), "Steps, summed by what they do", [
    { name: "step", text: (it) => it.text }, { name: "tasks", number: true, text: (it) => count(it.tasks) },
    { name: "time", number: true, text: (it) => seconds(it.value) }, { name: "share", number: true, text: (it) => percent(it.value / total) },
    { name: "", text: () => "" },
  ], sums.slice(0, mostSteps));
  addBars(table, (it) => it.value / sums[0].value);
}
