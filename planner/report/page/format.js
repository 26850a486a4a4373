// Numbers as text: decimal units, at most five significant digits.

const significant = (value, digits) => String(Number(value.toPrecision(digits)));

function scaled(value, units, digits) {
  const [factor, name] = units.find(([size]) => Math.abs(value) >= size) ?? units[units.length - 1];
  return `${grouped(significant(value / factor, digits))} ${name}`;
}

/** 12345.6 as "12,345.6". */
function grouped(text) {
  const [whole, fraction] = text.split(".");
  const withCommas = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return fraction === undefined ? withCommas : `${withCommas}.${fraction}`;
}

const count = (value) => grouped(String(value));
const plural = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
const microBatches = (value) => (value === 1 ? "1 micro-batch" : `${count(value)} micro-batches`);
const percent = (share) => `${(100 * share).toFixed(1)} %`;

/** Null stands for a time that is never reached. */
function seconds(value) {
  if (value === null || value === undefined) return "never";
  if (value === 0) return "0 s";
  return scaled(value, [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]], 5);
}
const bytes = (value) => scaled(value, [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]], 4);
const bitsPerSecond = (value) => scaled(value, [[1e9, "Gbps"], [1e6, "Mbps"], [1e3, "kbps"], [1, "bps"]], 4);
const flopsPerSecond = (value) =>
  scaled(value, [[1e18, "EFLOP/s"], [1e15, "PFLOP/s"], [1e12, "TFLOP/s"], [1e9, "GFLOP/s"], [1, "FLOP/s"]], 4);
const dollars = (value) => `${significant(value, 4)} USD`;

/** What the rate and the cost of a result count: images if the model is trained on them, else tokens. */
const countedIn = (result) => (result && "images_per_s" in result ? "images" : "tokens");
const rateOf = (result) => result?.[`${countedIn(result)}_per_s`];
const costOf = (result) => result?.[`cost_per_million_${countedIn(result)}`];

/** "5 ms", or "5 to 9 ms" if pairs differ. */
const range = ([low, high], format) => (low === high ? format(low) : `${format(low)} to ${format(high)}`);
/** Text for the layers [first, end), such as "3–5". */
const layerRange = ([first, end]) =>
  end <= first ? "no layers" : end === first + 1 ? String(first) : `${first}–${end - 1}`;
/** Text for the layers of a stage, of all its virtual stages if it has several. */
const layersOf = ({ layers, computes = [layers] }) => computes.map(layerRange).join(", ");
