// node console.mjs PART INPUT: works with the console in Chromium. PART is one of parts, below. INPUT is a JSON file with
// the address of the console, keys of persons, and what the part needs. Prints what it did as JSON.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import puppeteer from "puppeteer-core";

const [part, file] = process.argv.slice(2);
const input = JSON.parse(readFileSync(file, "utf8"));
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const browser = await puppeteer.launch({ executablePath: input.chromium, args: ["--no-sandbox", "--disable-gpu"] });
const fail = (...text) => {
  console.error(...text);
  process.exitCode = 1;
};

// open returns a page in a window of its own, which is signed in with a key unless that is missing. Messages of the
// browser about errors are in its errors.
async function open(key, scripts = true) {
  const page = await (await browser.createBrowserContext()).newPage();
  page.setDefaultTimeout(10000);
  page.errors = [];
  page.on("console", (m) => {
    const refused = m.text().startsWith("Failed to load resource") && m.location().url === page.expected;
    if (m.type() === "error" && !refused) page.errors.push(`${m.text()} ${m.location().url}`);
  });
  page.on("pageerror", (e) => page.errors.push(String(e)));
  await page.setJavaScriptEnabled(scripts);
  await page.setViewport({ width: 1280, height: 900 });
  await page.goto(`${input.home}/sign-in`);
  if (key) {
    await page.type("#key", key);
    await Promise.all([page.waitForNavigation(), page.click("button.main")]);
  }
  return page;
}

// check checks how a page looks in windows of two sizes, light and dark. A whole check takes a while, so only the first two
// are whole ones: the others check the colours. Auditors see a part of what staff see, so for them the first is enough.
async function check(page, name) {
  const failed = (...text) => fail(name, ...text);
  for (const [number, [width, value]] of [[1280, "light"], [360, "dark"], [360, "light"], [1280, "dark"]].entries()) {
    await page.setViewport({ width, height: 900 });
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value }]);
    if (number < 2) {
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (wide > 0) failed(`${width}: ${wide} pixels too wide`);
      if (input.pictures) await page.screenshot({ path: `${input.pictures}/${name.replace(/[^a-z0-9]+/gi, "-").slice(0, 60)}-${value}.png` });
    }
    if (number > 0 && name.startsWith("auditor")) continue;
    if (number === 0) await page.evaluate(axe);
    const rules = number < 2 ? {} : { runOnly: ["color-contrast"] };
    const { violations, passes } = await page.evaluate((rules) => axe.run(rules), rules);
    if (passes.length === 0) failed("no rule was checked");
    for (const v of violations) failed(`${width} ${value}: ${v.id}: ${v.help}\n${v.nodes.map((n) => n.html).join("\n")}`);
  }
  if (page.errors.length > 0) failed(page.errors.splice(0).join("\n"));
}

const shown = (page) => page.evaluate(() => Number(document.querySelector(".case .text")?.textContent.match(/\d+/)[0]));
const press = (page, key) => Promise.all([page.waitForNavigation(), page.keyboard.press(key)]);

const parts = {
  // look checks the pages input.paths, as each person and without one.
  async look() {
    const work = [[undefined, "/sign-in"]];
    for (const key of Object.values(input.keys)) work.push(...input.paths.map((path) => [key, path]));
    const worker = async () => {
      const pages = {};
      for (let next; (next = work.shift()); ) {
        const [key, path] = next;
        const page = (pages[key] ??= await open(key));
        page.expected = input.home + path;
        await page.goto(page.expected);
        await check(page, `${Object.keys(input.keys).find((k) => input.keys[k] === key)} ${path}`);
      }
    };
    await Promise.all([worker(), worker()]);
  },

  // day decides about all reported comments by keys: by their numbers it approves, hides, blocks, takes back, leaves a comment
  // for later, or returns to it.
  async day() {
    const page = await open(input.keys.Ada);
    const events = { f: ["reports_dismissed"], d: ["hidden"], b: ["blocked", "hidden"] };
    const undone = { d: ["restored"], b: ["unblocked", "restored"] };
    const log = [];
    const left = new Set();
    const began = Date.now();
    for (let n; (n = await shown(page)); ) {
      let keys = ["f", "f", "f", "f", "d", "d", "d", "b", "dz", "j"][n % 10];
      if (n % 40 === 17) keys = "bz";
      if (n % 40 === 19) keys = "jkd";
      if (left.has(n)) keys = "f";
      if (keys === "j") left.add(n);
      let before;
      for (const key of keys) {
        await press(page, key);
        for (const event of (key === "z" ? undone[before] : events[key]) ?? []) log.push(`${n} ${event} staff:Ada`);
        before = key;
      }
      if ((await shown(page)) === n) {
        fail(`${n} is still there after ${keys}`);
        break;
      }
    }
    return { log, seconds: (Date.now() - began) / 1000 };
  },

  // moderators decide about all reported comments at once: one approves, the other hides.
  async moderators() {
    const decide = async (page, key) => {
      for (const until = Date.now() + 60000; Date.now() < until; ) {
        if (!(await shown(page))) return;
        if (await page.evaluate(() => document.querySelector("main > p .tag.bad"))) { // a colleague has the last ones
          await new Promise((done) => setTimeout(done, 50));
          await page.goto(`${input.home}/queue/reported`);
        } else {
          await press(page, key);
        }
      }
      fail("comments are left");
    };
    await Promise.all([decide(await open(input.keys.Ada), "f"), decide(await open(input.keys.Grace), "d")]);
  },
};

const did = await parts[part]();
await browser.close();
console.log(JSON.stringify(did ?? null));
