// Opens the pages of browser.sh in a real browser without a network, and checks their content.
//
// usage: browser.mjs PACKAGES CHROMIUM FOLDER
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { comparisonTests } from "./comparison.mjs";

const [packages, executablePath, folder] = process.argv.slice(2);
const { chromium } = createRequire(join(packages, "package.json"))("playwright-core");
const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const json = (name) => JSON.parse(readFileSync(join(folder, name), "utf8"));
const stagesOf = (plan) => plan.pipelines.flatMap(({ stages }) => stages);
const devicesOf = (plan) => stagesOf(plan).flatMap(({ devices }) => devices);

const browser = await chromium.launch({ executablePath, args: flags });

/** Opens the page of a file, and records errors while it is open. */
async function opened(name, { width = 1240, colorScheme = "light" } = {}) {
  const context = await browser.newContext({ offline: true, colorScheme, viewport: { width, height: 900 } });
  const page = await context.newPage();
  const url = pathToFileURL(join(folder, name)).href;
  const faults = [];
  // This test reads the canvas, which the page itself does not do.
  const isFromTest = (text) => text.startsWith("Canvas2D: Multiple readback");
  page.on("console", (message) => { if (!isFromTest(message.text())) faults.push(`console: ${message.text()}`); });
  page.on("pageerror", (error) => faults.push(`error: ${error.stack}`));
  page.on("request", (request) => { if (request.url() !== url) faults.push(`request: ${request.url()}`); });
  await page.goto(url);
  await page.waitForSelector("html[data-ready]", { timeout: 30_000 });
  await settled(page);
  return { page, faults, close: async () => { assert.deepEqual(faults, [], name); await context.close(); } };
}

/** Opens a page `name` with the document of page `other`, modified by `change(document)`. */
function altered(name, other, change) {
  const page = readFileSync(join(folder, other), "utf8");
  const [, before, data, after] = page.match(/^(.*<script type="application\/json" id="data">)(.*?)(<\/script>.*)$/s);
  const document = JSON.parse(data);
  change(document);
  writeFileSync(join(folder, name), before + JSON.stringify(document).replaceAll("<", "\\u003c") + after);
  return opened(name);
}

/** Waits two frames, after which all charts have a size and are drawn. */
const settled = (page) => page.evaluate(() => new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(done)); }));

/** Scrolls an element into view and returns its bounding box. */
async function inView(page, selector) {
  await page.locator(selector).evaluate((node) => node.scrollIntoView({ block: "center", behavior: "instant" }));
  await settled(page);
  return page.locator(selector).boundingBox();
}

const sections = (page) => page.$$eval("main > section", (nodes) => nodes.map(({ id }) => id));
const countOf = (page, selector) => page.locator(selector).count();
const textOf = (page, selector) => page.locator(selector).textContent();
const tile = (page, name) => page.$$eval(".tile", (tiles, wanted) =>
  tiles.find((it) => it.querySelector("dt").textContent === wanted)?.querySelector(".value").textContent, name);
const moreOf = (page, name) => page.$$eval(".tile", (tiles, wanted) =>
  tiles.find((it) => it.querySelector("dt").textContent === wanted)?.querySelector(".more").textContent, name);
const viewOf = (page) => page.$eval(".timeline", ({ dataset }) => Object.fromEntries(Object.entries(dataset).map(([key, value]) => [key, Number(value)])));

/** Labels of charts that overlap each other, cover the circle of a site, or are cut off by more than a pixel. */
const badLabels = (page) => page.evaluate(() => {
  const box = (node) => node.getBoundingClientRect();
  const isOn = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1.5 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3.5;
  const found = [];
  for (const picture of document.querySelectorAll("main svg")) {
    const labels = [...picture.querySelectorAll("text")].filter((node) => node.textContent && box(node).width > 0);
    const outer = box(picture);
    for (const [i, label] of labels.entries()) {
      const own = box(label);
      if (Math.max(own.right - outer.right, outer.left - own.left, own.bottom - outer.bottom, outer.top - own.top) > 1)
        found.push(`${label.textContent} is cut off`);
      for (const other of labels.slice(i + 1)) if (isOn(own, box(other))) found.push(`${label.textContent} is on ${other.textContent}`);
      for (const circle of picture.querySelectorAll(".node circle")) if (isOn(own, box(circle))) found.push(`${label.textContent} is on a circle`);
    }
  }
  return found;
});

/** Checks that a text such as "17.225 s" is `value` seconds rounded to five digits. */
function assertSeconds(text, value) {
  const [number, unit] = text.replaceAll(",", "").split(" ");
  const shown = Number(number) * { s: 1, ms: 1e-3, "µs": 1e-6 }[unit];
  assert.ok(Math.abs(shown - value) <= 0.6e-4 * value, `${text} is not ${value} s`);
}

const tests = {
  ...comparisonTests({ opened, altered, json, sections, countOf, textOf, tile }),

  async "the page of a plan has every section and one mark per item"() {
    const { page, close } = await opened("plan.html");
    const plan = json("plan.json");
    assert.deepEqual(await sections(page), ["summary", "sites", "layers", "timeline", "time", "path", "explanation", "memory", "search",
      "finalists"]);
    assert.equal(await countOf(page, "#contents a"), 10);
    assert.equal(await countOf(page, "#layers td.cell"), stagesOf(plan).length);
    assert.equal(await countOf(page, "#layers tbody tr"), plan.pipelines.length);
    assert.equal(await countOf(page, "#sites .node"), 3);
    assert.equal(await countOf(page, "#time .device-row"), devicesOf(plan).length);
    assert.equal(await countOf(page, "#memory .device-row"), plan.estimate.memory.length);
    assert.equal(await countOf(page, "#memory .capacity"), plan.estimate.memory.length);
    assert.equal(await countOf(page, "#finalists .finalist"), plan.finalists.length);
    assert.equal(await countOf(page, "#finalists .simulated"), 2 * plan.finalists.length);
    assert.equal(await countOf(page, "#search .improvement"), plan.search.convergence.length);
    assert.equal(await countOf(page, "#search .bound"), 1);
    const { summary, scaling, changes } = plan.explanation;
    assert.equal(await countOf(page, "#explanation li"), summary.length + scaling.length);
    assert.equal(await countOf(page, "#explanation .share"), Math.min(10, changes.filter(({ gain, fits }) => fits && gain > 0).length));
    const sent = JSON.parse(await textOf(page, "#data")).simulation.links.filter((link) => link.bytes > 0);
    assert.equal(await countOf(page, "#sites .edge"), sent.length);
    assert.equal((await viewOf(page)).rows, devicesOf(plan).length);
    await close();
  },

  async "the page of a model of images counts images"() {
    const { page, close } = await altered("images.html", "plan.html", ({ plan, simulation }) => {
      for (const result of [plan.estimate, simulation]) {
        result.images_per_s = result.tokens_per_s;
        delete result.tokens_per_s;
      }
      plan.estimate.cost_per_million_images = plan.estimate.cost_per_million_tokens;
      delete plan.estimate.cost_per_million_tokens;
    });
    const plan = json("plan.json");
    assert.equal(await tile(page, "Images per second"), Math.round(plan.estimate.tokens_per_s).toLocaleString("en-US"));
    assert.equal(await moreOf(page, "A million images"), "estimated");
    assert.equal(await tile(page, "Tokens per second"), undefined);
    await close();
  },

  async "the page shows the numbers of the plan file"() {
    const { page, close } = await opened("plan.html");
    const plan = json("plan.json");
    assertSeconds(await tile(page, "Iteration, estimated"), plan.estimate.iteration_time_s);
    assertSeconds(await tile(page, "Iteration, simulated"), plan.finalists[0].simulated.nominal.mean_s);
    assert.equal(await tile(page, "Tokens per second"), Math.round(plan.estimate.tokens_per_s).toLocaleString("en-US"));
    assert.match(await moreOf(page, "Tokens per second"), /^estimated: .* model [TG]FLOP\/s$/);
    assert.equal(await moreOf(page, "A million tokens"), "estimated");
    assert.equal(await tile(page, "Gap to the lower bound"), `${(100 * plan.lower_bound.gap).toFixed(1)} %`);
    const cells = await page.$$eval("#layers td.cell", (nodes) => nodes.map((node) =>
      [node.querySelector(".layers").textContent, node.querySelector(".devices").textContent]));
    assert.deepEqual(cells, stagesOf(plan).map(({ layers: [first, end], devices }) =>
      [end === first + 1 ? `${first}` : `${first}–${end - 1}`, devices.join(" ")]));
    const means = await page.$$eval("#finalists tbody tr", (rows) => rows.map((row) => row.cells[3].textContent));
    means.forEach((text, i) => assertSeconds(text, plan.finalists[i].simulated.nominal.mean_s));
    assert.match(await textOf(page, "#about"), new RegExp(`fingerprint ${plan.topology.fingerprint}.*seed ${plan.search.seed}`));
    await close();
  },

  async "the bars of a device's time cover the run and equal their table"() {
    const { page, close } = await opened("plan.html");
    const { simulation } = JSON.parse(await textOf(page, "#data"));
    const widths = await page.$$eval("#time .device-row", (rows) => rows.map((row) =>
      [...row.querySelectorAll(".bar")].reduce((sum, bar) => sum + Number(bar.getAttribute("width")), 0)));
    for (const width of widths) assert.ok(Math.abs(width - widths[0]) < 0.01 * widths[0] && width > 100, `${widths}`);
    await page.locator("#time summary").click();
    const rows = await page.$$eval("#time tbody tr", (nodes) => nodes.map((row) => [...row.cells].map((cell) => cell.textContent)));
    rows.forEach(([id, computing], i) => {
      assert.equal(id, simulation.devices[i].device);
      assertSeconds(computing, simulation.devices[i].compute_s);
    });
    await close();
  },

  async "the timeline zooms by buttons, keys and wheel and can be reset"() {
    const { page, close } = await opened("plan.html");
    const colors = await page.$eval(".timeline canvas", (canvas) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const seen = new Map();
      for (let i = 0; i < data.length; i += 4) {
        const color = `${data[i]},${data[i + 1]},${data[i + 2]}`;
        seen.set(color, (seen.get(color) ?? 0) + 1);
      }
      return Object.fromEntries(seen);
    });
    const swatches = await page.$$eval("#timeline .swatch", (nodes) => nodes.map((node) => getComputedStyle(node).backgroundColor.match(/\d+/g).join()));
    for (const color of swatches.slice(0, 2)) assert.ok(colors[color] > 500, `${color} is hardly seen: ${colors[color]}`);
    const whole = await viewOf(page);
    const { timeline } = JSON.parse(await textOf(page, "#data"));
    const length = timeline.end_s - timeline.start_s;
    assert.ok(Math.abs(whole.from) < 1e-9 && Math.abs(whole.to - length) < 1e-6 * length);
    await page.getByRole("button", { name: "Zoom in" }).click();
    const half = await viewOf(page);
    assert.ok(Math.abs((half.to - half.from) / length - 0.5) < 1e-3, `${half.to - half.from} of ${length}`);
    await page.locator(".timeline canvas").focus();
    await page.keyboard.press("+");
    await page.keyboard.press("ArrowRight");
    const quarter = await viewOf(page);
    assert.ok(Math.abs((quarter.to - quarter.from) / length - 0.25) < 1e-3);
    assert.ok(quarter.from > half.from);
    const box = await inView(page, ".timeline canvas");
    await page.mouse.move(box.x + box.width / 2, box.y + 40);
    await page.keyboard.down("Control");
    await page.mouse.wheel(0, -400);
    await page.keyboard.up("Control");
    await settled(page);
    const near = await viewOf(page);
    assert.ok(near.to - near.from < 0.9 * (quarter.to - quarter.from), "Control and the wheel do not zoom");
    await page.mouse.down();
    await page.mouse.move(box.x + box.width / 2 - 100, box.y + 40, { steps: 4 });
    await page.mouse.up();
    const dragged = await viewOf(page);
    assert.ok(Math.abs((dragged.from - near.from) / (near.to - near.from) - 100 / (box.width - 150)) < 0.01, "dragging does not move");
    await page.keyboard.press("Home");
    assert.deepEqual(await viewOf(page), whole);
    await page.getByRole("button", { name: "Taller rows" }).click();
    assert.ok((await viewOf(page)).row > whole.row);
    await close();
  },

  async "spans, cells and bars have tooltips"() {
    const { page, close } = await opened("plan.html");
    const plan = json("plan.json");
    const box = await inView(page, ".timeline canvas");
    const { timeline, topology } = JSON.parse(await textOf(page, "#data"));
    const first = devicesOf(plan)[0];
    const row = timeline.rows.find((it) => it.track === "compute" && topology.devices.id[it.device] === first);
    const at = (row.start[0] + row.length[0] / 2) * timeline.tick_s / (timeline.end_s - timeline.start_s);
    await page.mouse.move(box.x + 150 + at * (box.width - 150), box.y + 26);
    const told = await textOf(page, "#tooltip");
    assert.ok(told.startsWith(first) && told.includes("forward") && told.includes("micro-batch"), told);
    await page.locator("#layers td.cell").first().hover();
    assert.ok((await textOf(page, "#tooltip")).includes(first), await textOf(page, "#tooltip"));
    await page.locator("#memory .device-row").first().hover();
    assert.match(await textOf(page, "#tooltip"), /needed.*GB.*capacity16 GB/);
    await close();
  },

  async "the page follows the theme of the system and the button switches between themes"() {
    const { page, close } = await opened("plan.html", { colorScheme: "dark" });
    const luminance = () => page.$eval("body", (body) => Number(getComputedStyle(body).backgroundColor.match(/\d+/)[0]));
    const corner = () => page.$eval(".timeline canvas", (canvas) => canvas.getContext("2d").getImageData(1, 1, 1, 1).data[0]);
    assert.ok(await luminance() < 50 && await corner() < 60);
    await page.locator("#theme").click();
    assert.ok(await luminance() > 200 && await corner() > 200, "light is not light");
    await page.locator("#theme").click();
    assert.ok(await luminance() < 50 && await corner() < 60);
    await page.emulateMedia({ media: "print" });
    assert.ok(await luminance() > 200, "paper is not dark");
    assert.equal(await page.locator("#timeline .controls").isVisible(), false);
    assert.equal(await page.locator(".timeline canvas").isVisible(), true);
    await close();
  },

  async "pages fit a narrow screen"() {
    for (const name of ["plan.html", "run.html", "uneven.html", "hostile.html", "table.html"]) {
      const { page, close } = await opened(name, { width: 360 });
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= 360, name);
      await close();
    }
  },

  async "pipelines may differ in depth, layers and degree"() {
    const { page, close } = await opened("uneven.html");
    const plan = json("uneven-plan.json");
    const perRow = await page.$$eval("#layers tbody tr", (rows) => rows.map((row) => row.querySelectorAll("td.cell").length));
    assert.deepEqual(perRow, plan.pipelines.map(({ stages }) => stages.length));
    assert.deepEqual(await page.$$eval("#layers .micro-batches", (nodes) => nodes.map((node) => node.textContent)), ["16 micro-batches", "8 micro-batches"]);
    assert.match(await textOf(page, "#layers"), /Not used: ohio\/1, tokyo\/1$/);
    assert.equal((await viewOf(page)).rows, devicesOf(plan).length);
    assert.ok(!(await sections(page)).includes("search"));
    await close();
  },

  async "the page of a run has iterations and events but no search"() {
    const { page, close } = await opened("run.html");
    const result = json("run.json");
    assert.deepEqual(await sections(page), ["summary", "sites", "layers", "timeline", "time", "path", "memory", "iterations"]);
    assert.equal(await countOf(page, "#iterations .run"), result.iterations.length);
    assert.equal(await countOf(page, "#iterations .chart tbody tr"), result.events.length);
    assertSeconds(await tile(page, "Iteration, simulated"), result.iteration_time_s.mean);
    assert.match(await textOf(page, "#iterations .note"), /^6 iterations .*The first, .* is drawn, but not in the mean\.$/);
    await close();
    const lost = await altered("lost.html", "run.html", ({ simulation }) => { simulation.lost_work_s = 12; });
    assert.match(await textOf(lost.page, "#summary .facts"), /Lost work12 s of compute, summed over devices/);
    await lost.close();
  },

  async "a measured timeline is drawn below the simulated one on the same scale"() {
    const { page, close } = await opened("measured.html");
    assert.deepEqual((await sections(page)).slice(3, 5), ["timeline", "measured-timeline"]);
    const views = await page.$$eval(".timeline", (boxes) => boxes.map(({ dataset }) => ({ ...dataset })));
    assert.equal(views.length, 2);
    assert.deepEqual(views[0], views[1]);
    assert.match(await textOf(page, "#measured-timeline .note"), /It shows iteration [12] of the training: /);
    assert.match(await textOf(page, "#about"), /Only the second timeline is a measurement/);
    await close();
  },

  async "the page of several runs has a distribution but no timeline"() {
    const { page, close } = await opened("samples.html");
    assert.equal(await countOf(page, "#samples .run"), 5);
    assert.ok(!(await sections(page)).includes("timeline"));
    await close();
  },

  async "tiles of several runs summarize all of them or name the run"() {
    const { page, close } = await opened("samples.html");
    const { samples, tokens_per_s, iteration_time_interval_s } = json("samples.json");
    assert.ok(iteration_time_interval_s, "of the first run, which the page must not show below the mean of all");
    assertSeconds(await tile(page, "Iteration, simulated"), samples.iteration_time_s.mean);
    assert.match(await moreOf(page, "Iteration, simulated"), /^p95 /);
    assert.notEqual(Math.round(samples.tokens_per_s.mean), Math.round(tokens_per_s));
    assert.equal(await tile(page, "Tokens per second"), Math.round(samples.tokens_per_s.mean).toLocaleString("en-US"));
    assert.equal(await moreOf(page, "Tokens per second"), "mean of 5 runs");
    assert.equal(await moreOf(page, "Not computing"), "of the devices' time in the first of the runs");
    await close();
  },

  async "a plan that exceeds memory has no simulated time and a plan that completes no iteration says so"() {
    const tiny = await opened("tiny.html");
    assert.equal(await tile(tiny.page, "Iteration, simulated"), undefined);
    assert.notEqual(await tile(tiny.page, "Iteration, estimated"), undefined);
    await tiny.close();
    const { page, close } = await altered("never.html", "plan.html", ({ plan }) => {
      plan.finalists[0].simulated.nominal = { mean_s: null, p95_s: null, max_s: null };
    });
    assert.equal(await tile(page, "Iteration, simulated"), "never");
    assert.equal(await moreOf(page, "Iteration, simulated"), "no iteration is completed");
    await close();
    const own = await altered("own.html", "plan.html", ({ plan, simulation }) => {
      plan.finalists = []; // as with --objective comm-cost, where only the page requires a simulation
      simulation.iteration_time_s.mean = 7;
    });
    assert.equal(await tile(own.page, "Iteration, simulated"), "7 s");
    await own.close();
  },

  async "the critical path is that of the whole iteration even if the list of steps is truncated"() {
    const steps = json("run.json").critical_path;
    const { page, close } = await altered("cut.html", "run.html", ({ simulation }) => { simulation.critical_path.length = 2; });
    const rows = await page.$$eval("#path tbody tr", (nodes) => nodes.map((row) => [...row.cells].slice(0, 4).map((cell) => cell.textContent)));
    assert.equal(rows.length, Math.min(12, new Set(steps.map(({ text }) => text)).size));
    const whole = steps.at(-1).end_s - steps[0].start_s;
    for (const [text, , time, share] of rows) {
      const sum = steps.filter((step) => step.text === text).reduce((total, step) => total + step.end_s - step.start_s, 0);
      assertSeconds(time, sum);
      assert.ok(Math.abs(Number.parseFloat(share) - 100 * sum / whole) < 0.051, `${share} of ${text}`);
    }
    assert.ok((await textOf(page, "#path .note")).includes(`${steps.length} steps`));
    await close();
  },

  async "the legend explains distances only if latencies are known"() {
    const known = await opened("plan.html");
    assert.match(await textOf(known.page, "#sites .note"), /^The nearer two sites, the shorter the latency/);
    await known.close();
    const { page, close } = await altered("unknown.html", "plan.html", ({ topology }) => { delete topology.links; });
    assert.match(await textOf(page, "#sites .note"), /^Lines are what the simulated run sent/);
    await close();
  },

  async "a plan by communication cost has a bound and no finalists"() {
    const { page, close } = await opened("comm.html");
    const all = await sections(page);
    assert.ok(all.includes("search") && !all.includes("finalists") && !all.includes("timeline"), `${all}`);
    assertSeconds(await tile(page, "Communication"), json("comm.json").estimate.comm_cost.total_s);
    assert.match(await textOf(page, ".warnings"), /could not be simulated/);
    await close();
  },

  async "names from files are shown as text"() {
    const { page, close } = await opened("hostile.html");
    const name = "</script><script>window.hacked=1</script>";
    const site = "<img src=x onerror=window.hacked=1>";
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await countOf(page, "img"), 0);
    assert.ok((await textOf(page, "h1")).startsWith(`${name} · `));
    assert.equal(await page.title(), `${name} · <b>job</b> · dtfm`);
    assert.ok((await textOf(page, "#layers .legend")).includes(site));
    assert.match(await textOf(page, "#finalists .legend"), /<svg onload=window\.hacked=1>/);
    await page.locator("#layers td.cell").first().hover();
    assert.ok((await textOf(page, "#tooltip")).includes("<img"));
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    await close();
  },

  async "the page runs only its own script"() {
    const { page, faults } = await opened("plan.html");
    await page.evaluate(() => {
      const script = document.createElement("script");
      script.textContent = "window.hacked = 1";
      document.body.append(script);
      document.body.setAttribute("onclick", "window.hacked = 1");
      document.body.click();
    });
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.ok(faults.length >= 2 && faults.every((fault) => fault.includes("Content Security Policy")), faults.join("\n"));
    await page.context().close();
  },

  async "labels of charts neither overlap nor are cut off"() {
    for (const name of ["plan.html", "run.html", "table.html", "cities.html"])
      for (const width of [800, 1280, 1600]) {
        const { page, close } = await opened(name, { width });
        assert.deepEqual(await badLabels(page), [], `${name} at ${width} px`);
        await close();
      }
  },

  async "with many devices the page still has bars and says which spans were merged"() {
    const { page, close } = await opened("many.html");
    const { timeline } = JSON.parse(await textOf(page, "#data"));
    assert.ok(timeline.merged_below_s > 0);
    assert.match(await textOf(page, "#timeline .note"), /drawn as one, to bound the size of this page/);
    assert.equal((await viewOf(page)).rows, 256);
    assert.equal(await countOf(page, "#time .device-row"), 256);
    await close();
  },
};

let failures = 0;
for (const [name, test] of Object.entries(tests)) {
  try {
    await test();
    console.log(`ok ${name}`);
  } catch (error) {
    failures += 1;
    console.log(`FAILED ${name}\n${error.stack}`);
  }
}
await browser.close();
process.exit(failures ? 1 : 0);
