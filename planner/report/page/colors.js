// Colours of sites: the colour-blind safe scheme "muted" by Paul Tol, and a grey. Beyond ten sites, colours repeat with
// stripes; names are always shown next to them.

const siteHues = ["#88ccee", "#cc6677", "#ddcc77", "#117733", "#5e55c4", "#aa4499", "#44aa99", "#999933", "#882255",
  "#a7b0ba"];

const siteHue = (site) => siteHues[site % siteHues.length];
const siteRound = (site) => Math.floor(site / siteHues.length);

/** CSS background of a site: plain or, when colours repeat, striped. */
function siteBackground(site) {
  const round = siteRound(site);
  if (round === 0) return siteHue(site);
  const step = Math.max(2, 7 - (round % 5));
  const angle = round % 2 === 1 ? 45 : 135;
  const stripe = d3.color(siteHue(site)).darker(1.2);
  return `repeating-linear-gradient(${angle}deg, ${siteHue(site)} 0 ${step}px, ${stripe} ${step}px ${step + 2}px)`;
}

/** The same as a fill for shapes in `picture`. */
function siteFill(picture, site) {
  const round = siteRound(site);
  if (round === 0) return siteHue(site);
  const step = Math.max(3, 8 - (round % 5));
  const pattern = picture.append("defs").append("pattern").attr("id", `site-${site}`).attr("patternUnits", "userSpaceOnUse")
    .attr("width", step).attr("height", step).attr("patternTransform", `rotate(${round % 2 === 1 ? 45 : 135})`);
  pattern.append("rect").attr("width", step).attr("height", step).attr("fill", siteHue(site));
  pattern.append("rect").attr("width", 2).attr("height", step).attr("fill", d3.color(siteHue(site)).darker(1.2));
  return `url(#site-${site})`;
}

/** Background of a stage, on which text is legible: stripes only at the left end; several sites are side by side. */
function stageBackground(sites) {
  const unique = [...new Set(sites)];
  const [first] = unique;
  if (unique.length === 1 && siteRound(first) === 0) return siteHue(first);
  if (unique.length === 1) return `linear-gradient(90deg, transparent 0.8rem, ${siteHue(first)} 0.8rem), ${siteBackground(first)}`;
  const share = 100 / unique.length;
  const parts = unique.map((site, i) => `${siteHue(site)} ${i * share}% ${(i + 1) * share}%`);
  return `linear-gradient(90deg, ${parts.join(", ")})`;
}

/** Black or white, whichever has more contrast to `hue` (WCAG relative luminance). */
function inkOn(hue) {
  const linear = (channel) => (channel <= 10.31475 ? channel / 3294.6 : ((channel / 255 + 0.055) / 1.055) ** 2.4);
  const { r, g, b } = d3.rgb(hue);
  const luminance = 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  return luminance > 0.179 ? "#000000" : "#ffffff";
}

/** From idle to always busy; both ends are visible on light and dark pages. */
const busyColor = d3.interpolateRgb("#9aa7b5", "#d9480f");
