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

// person works on a page as people do, and counts the clicks. Typing is none, also into a list of choices.
class Person {
  clicks = 0;

  constructor(page) {
    this.page = page;
  }

  // click clicks the first link, button or label that is visible and begins with a text, and waits for the page to which a
  // link or button leads.
  async click(text, selector = "main a, nav a, button, summary, label") {
    const found = await this.page.evaluateHandle((text, selector) => [...document.querySelectorAll(selector)]
      .find((e) => e.checkVisibility() && e.textContent.trim().startsWith(text)) ?? null, text, selector);
    if (!found.asElement()) throw new Error(`there is no ${selector} ${JSON.stringify(text)} at ${this.page.url()}`);
    this.clicks++;
    const leads = await found.evaluate((e) => e.matches("a, button"));
    await Promise.all([leads && this.page.waitForNavigation(), found.click()]);
    if (leads && (await this.page.$("[name=confirmed]"))) await this.look();
  }

  // type types into the field with a label that begins with a text, in the place of what is there.
  async type(label, text) {
    const found = await this.page.evaluate((label) => {
      const field = [...document.querySelectorAll("label")].find((e) => e.textContent.trim().startsWith(label))?.control;
      field?.focus();
      if (field?.matches("input:not([type=date])")) field.select();
      return Boolean(field);
    }, label);
    if (!found) throw new Error(`there is no field ${label} at ${this.page.url()}`);
    await this.page.keyboard.type(text);
  }

  async see(text) {
    const shown = await this.page.evaluate(() => document.querySelector("main").innerText);
    if (!shown.includes(text)) throw new Error(`${this.page.url()} does not show ${JSON.stringify(text)}:\n${shown}`);
  }

  async look() {
    if (input.scripts) await check(this.page, `staff ${this.page.url()}`);
  }
}

// tasks are those of every day. Each begins at the page that follows the sign-in.
const tasks = {
  "approve a waiting novel": async (p) => {
    await p.click("Waiting novels");
    await p.click("Approve");
    await p.see("Approved “Heike”.");
  },
  "reject a waiting novel": async (p) => {
    await p.click("Waiting novels");
    await p.click("Reject");
    await p.see("Rejected “Zebra”.");
  },
  "hide all reported comments of a partner": async (p) => {
    await p.click("Comments");
    await p.type("State", "reported");
    await p.type("Partner", "Night");
    await p.click("Show");
    await p.click("All that match");
    await p.type("Reason", "a flood");
    await p.click("Hide");
    await p.click("Yes");
    await p.see("Hidden: 3 comments.");
  },
  "restore a hidden comment": async (p) => {
    await p.click("Hidden");
    await p.click("", "[name=post]");
    await p.type("Reason", "it was no spam");
    await p.click("Restore", "[name=decision]");
    await p.see("Restored: 1 comment.");
  },
  "block the author of a reported comment": async (p) => {
    await p.click("Hide and block the author");
    await p.see("Blocked one, and hid the comment.");
  },
  "erase an author": async (p) => {
    await p.click("Everything about this author");
    await p.click("Erase");
    await p.type("Reason. It stays", "they asked");
    await p.click("Erase", "button");
    await p.click("Erase", "button");
    await p.see("rased");
  },
  "issue a key": async (p) => {
    await p.click("Partners");
    await p.click("Fan Site");
    await p.click("Issue and show it");
    await p.see("Copy it now");
  },
  "change a limit": async (p) => {
    await p.click("Partners");
    await p.click("Fan Site");
    await p.type("Comments", "120");
    await p.click("Save");
    await p.see("Fan Site: settings changed.");
  },
  "see why a delivery was refused": async (p) => {
    await p.click("Partners");
    await p.click("Fan Site");
    await p.click("Deliveries and refusals");
    await p.see("it is too long");
  },
  "see what a colleague did on a day": async (p) => {
    await p.click("History");
    await p.type("Who", "Grace");
    await p.type("Day", input.day);
    await p.click("Show");
    await p.see("it gives the end away");
  },
  "take a decision back": async (p) => {
    await p.click("Hide");
    await p.click("Restore 1 comment");
    await p.see("Done: Restore 1 comment.");
  },
};

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

  // picture saves the picture of the documents.
  async picture() {
    const page = await open(input.keys.Ada);
    await page.setViewport({ width: 1200, height: 860 });
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "light" }]);
    await page.goto(`${input.home}/queue/reported?item=${input.item}`);
    await page.screenshot({ path: `${input.pictures}/console-queue.png` });
  },

  // tasks executes the tasks, with or without the script of the pages. None has more than five clicks.
  async tasks() {
    const page = await open(input.keys.Ada, input.scripts);
    const clicks = {};
    for (const [name, task] of Object.entries(tasks)) {
      const person = new Person(page);
      await page.goto(`${input.home}/queue/reported`);
      try {
        await task(person);
        await person.look();
      } catch (e) {
        fail(name, e);
      }
      clicks[name] = person.clicks;
      if (person.clicks > 5) fail(`${name}: ${person.clicks} clicks`);
    }
    return clicks;
  },
};

const did = await parts[part]();
await browser.close();
console.log(JSON.stringify(did ?? null));
