// Checks for browser.mjs on pages of dtfm-compare.
import assert from "node:assert/strict";

/** By name; with what browser.mjs opens and reads pages with. */
export const comparisonTests = ({ opened, altered, json, sections, countOf, textOf, tile }) => ({
  async "a comparison has a panel per scenario with a row per scheme and the numbers of its file"() {
    const { page, close } = await opened("table.html");
    const { schemes } = json("table.json");
    assert.deepEqual(await sections(page), ["summary", "speed", "cost", "schemes", "assumptions", "sites"]);
    assert.deepEqual(await page.$$eval("#speed caption", (nodes) => nodes.map((node) => node.textContent)),
      ["nominal", "scenario departure", "scenario leaves"]);
    assert.equal(await countOf(page, "#speed tbody tr"), 3 * schemes.length);
    const running = schemes.flatMap(({ runs }) => runs).filter(({ tokens_per_s }) => tokens_per_s !== null);
    assert.equal(await countOf(page, "#speed .share"), running.length);
    assert.equal(await countOf(page, "#cost .share"), running.length);
    assert.equal(await countOf(page, "#cost tbody tr"), 3 * schemes.length);
    const [[, ...cells]] = await page.$$eval("#schemes div:nth-of-type(1) tbody tr", (rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent)));
    const [{ runs: [fastest], layout }] = schemes.toSorted((a, b) => (b.runs[0]?.tokens_per_s ?? 0) - (a.runs[0]?.tokens_per_s ?? 0));
    assert.deepEqual(cells.slice(0, 4).map((text) => Number.parseFloat(text.replaceAll(",", ""))), [
      Number(fastest.seconds_per_batch.toPrecision(6)), Number(fastest.tokens_per_s.toPrecision(6)),
      Number(fastest.time_ratio.toFixed(2)), Number(fastest.cost_per_million_tokens.toPrecision(4))]);
    assert.equal(cells.at(-1), layout.description);
    await page.locator("#speed tbody tr").first().hover();
    assert.ok((await textOf(page, "#tooltip")).includes(layout.description), await textOf(page, "#tooltip"));
    assert.match(await textOf(page, "#about"), /Simulated: .*None of this is a measurement.*seed 0$/);
    await close();
  },

  async "bars of all scenarios have one scale and one order and the line marks the first scheme"() {
    const { page, close } = await opened("table.html");
    const { schemes } = json("table.json");
    const most = Math.max(...schemes.flatMap(({ runs }) => runs.map(({ tokens_per_s }) => tokens_per_s ?? 0)));
    const panels = await page.$$eval("#speed .panels table", (tables) => tables.map((table) => [...table.tBodies[0].rows].map((row) =>
      ({ scheme: row.cells[0].textContent, width: row.querySelector(".share")?.style.width, mark: row.querySelector(".mark")?.style.left }))));
    const order = panels[0].map(({ scheme }) => scheme);
    panels.forEach((rows, i) => {
      assert.deepEqual(rows.map(({ scheme }) => scheme), order);
      const reference = rows.find(({ scheme }) => scheme === schemes[0].scheme);
      for (const { scheme, width, mark } of rows.filter((row) => row.width)) {
        const { tokens_per_s: rate } = schemes.find((it) => it.scheme === scheme).runs[i];
        assert.ok(Math.abs(Number.parseFloat(width) - 100 * rate / most) < 0.01, `${scheme}: ${width}`);
        assert.equal(mark, reference.width);
      }
    });
    await close();
  },

  async "a comparison of models of images counts images"() {
    const { page, close } = await altered("images-table.html", "table.html", ({ comparison }) => {
      for (const run of comparison.schemes.flatMap(({ runs }) => runs)) {
        Object.assign(run, { images_per_s: run.tokens_per_s, cost_per_million_images: run.cost_per_million_tokens });
        delete run.tokens_per_s;
        delete run.cost_per_million_tokens;
      }
    });
    const header = await page.$$eval("#schemes table >> nth=0 >> th", (cells) => cells.map((cell) => cell.textContent));
    assert.deepEqual(header.slice(2, 5), ["images/s", "time", "USD/M images"]);
    assert.match(await textOf(page, "#speed"), /Images per second for the same job/);
    assert.match(await textOf(page, "#cost"), /Cost per million images/);
    assert.doesNotMatch(await textOf(page, "#summary"), /tokens/);
    await close();
  },

  async "schemes without a result are listed with the reason"() {
    const { page, close } = await opened("table.html");
    const { schemes } = json("table.json");
    const reasons = await page.$$eval("#speed tbody tr", (rows) => rows.filter((row) => !row.querySelector(".share")).map((row) => row.textContent));
    const [replica, zero] = ["data-parallel", "zero3"].map((name) => schemes.find(({ scheme }) => scheme === name));
    assert.equal(reasons.filter((text) => text === `data-parallelno layout: ${replica.no_layout_reason}`).length, 3, `${reasons}`);
    assert.ok(reasons.includes(`zero3no result: ${zero.runs[2].stopped}`), `${reasons}`);
    const shown = await page.$$eval("#schemes td[colspan]", (nodes) => nodes.map((node) => node.textContent));
    assert.equal(shown.length, reasons.length, "table and bars have different reasons");
    assert.equal(await tile(page, "Schemes with a result"), "3 of 4");
    await close();
    const first = await altered("first.html", "table.html", ({ comparison }) => {
      Object.assign(comparison.schemes[0].runs[0], { tokens_per_s: null, time_ratio: null, cost_per_million_tokens: null, stopped: "a reason" });
    });
    assert.equal(await countOf(first.page, "#cost tbody tr"), 3 * schemes.length);
    assert.equal(await first.page.locator("#speed table").first().locator(".mark").count(), 0);
    assert.match(await textOf(first.page, "#speed table >> nth=0"), new RegExp(`${schemes[0].scheme}no result: a reason`));
    assert.match(await textOf(first.page, "#cost table >> nth=0"), new RegExp(`${schemes[0].scheme}no result`));
    await first.close();
    const none = await opened("none.html");
    assert.equal(await countOf(none.page, "#speed .share"), 0);
    assert.equal(await tile(none.page, "Schemes with a result"), "0 of 2");
    assert.ok(!(await sections(none.page)).includes("cost"));
    await none.close();
    const cut = await altered("cut-table.html", "table.html", ({ comparison }) => {
      comparison.schemes = [];
      comparison.stopped = "interrupted: nothing is here";
    });
    assert.deepEqual(await sections(cut.page), ["summary", "sites"]);
    assert.equal(await textOf(cut.page, ".warnings"), "interrupted: nothing is here");
    await cut.close();
  },

  async "speed-ups are shown with their factors"() {
    const { page, close } = await altered("speedups.html", "table.html", ({ comparison }) => {
      comparison.speedups = [{ scheme: "megatron", total: 3.681, placement: 1.5, schedule: 1, collective: 2.454 }];
    });
    assert.deepEqual(await sections(page), ["summary", "speed", "speedups", "cost", "schemes", "assumptions", "sites"]);
    assert.deepEqual(await page.$$eval("#speedups tbody td, #speedups tbody th", (cells) => cells.map((cell) => cell.textContent)),
      ["megatron", "3.68 ×", "1.50 ×", "1.00 ×", "2.45 ×"]);
    await close();
  },

  async "names in a comparison are shown as text and not truncated"() {
    const { page, close } = await opened("odd-table.html", { width: 360 });
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await countOf(page, "main b, main script, svg[onload]"), 0);
    assert.equal(await textOf(page, "h1"), '$(touch pwned) "quoted" · <b>job</b>');
    const [{ runs: [, { scenario }] }] = json("odd-table.json").schemes;
    assert.ok(scenario.startsWith("<svg onload") && (await textOf(page, "#speed caption >> nth=1")) === `scenario ${scenario}`);
    const reason = page.locator("#speed tbody tr", { hasText: "data-parallel" }).first().locator("td").last();
    assert.match(await reason.textContent(), /^no layout: does not fit: <script>window\.hacked=1\/0:0 needs /);
    assert.ok(await reason.evaluate((node) => node.scrollWidth <= node.clientWidth + 1), "the reason is cut");
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= 360);
    assert.equal(await page.locator("#speed .share").first().isVisible(), true);
    await page.emulateMedia({ media: "print" });
    assert.ok(await page.$$eval(".panels table", (tables) => tables.every((it) => it.getBoundingClientRect().right <= window.innerWidth)));
    await close();
  },
});
