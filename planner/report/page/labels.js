// Places labels of points such that they overlap little with each other and with the points.

const letter = { width: 6.7, height: 14 };
const labelRounds = 4;

/** Label positions for a point of radius `r`, the preferred first: {dx, dy, anchor}, where dy is that of the baseline. */
const labelPlaces = (r) => [
  { dx: 0, dy: r + 15, anchor: "middle" },
  { dx: 0, dy: -r - 7, anchor: "middle" },
  { dx: r + 7, dy: 4, anchor: "start" },
  { dx: -r - 7, dy: 4, anchor: "end" },
  ...[15, -7].flatMap((dy) => [
    { dx: r / 2, dy: Math.sign(dy) * r * 0.8 + dy, anchor: "start" },
    { dx: -r / 2, dy: Math.sign(dy) * r * 0.8 + dy, anchor: "end" },
  ]),
  { dx: 0, dy: r + 29, anchor: "middle" },
  { dx: 0, dy: -r - 21, anchor: "middle" },
];

function labelBox({ x, y }, text, { dx, dy, anchor }) {
  const width = letter.width * text.length;
  const left = x + dx - { start: 0, middle: width / 2, end: width }[anchor];
  return { left, right: left + width, top: y + dy - letter.height + 3, bottom: y + dy + 3 };
}

const overlap = (a, b) => Math.max(0, Math.min(a.right, b.right) - Math.max(a.left, b.left)) *
  Math.max(0, Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top));

/** For each of `points` {x, y, r, text} the label position with the least overlap, improved in several rounds. */
function placedLabels(points, width) {
  const circles = points.map(({ x, y, r }) => ({ left: x - r, right: x + r, top: y - r, bottom: y + r }));
  const labels = points.map(() => undefined);
  const places = points.map(() => undefined);
  for (let round = 0; round < labelRounds; ++round)
    points.forEach((point, i) => {
      const others = [...circles, ...labels.filter((box, other) => box && other !== i)];
      const cost = (place) => {
        const box = labelBox(point, point.text, place);
        const outside = Math.max(0, -box.left) + Math.max(0, box.right - width);
        return d3.sum(others, (other) => overlap(box, other)) + letter.height * outside;
      };
      places[i] = d3.least(labelPlaces(point.r), cost);
      labels[i] = labelBox(point, point.text, places[i]);
    });
  return places;
}
