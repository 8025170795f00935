// node axe.mjs CHROMIUM URL…: checks the accessibility of pages with axe, on a desktop and on a phone, light and dark.
import { createRequire } from "node:module";
import puppeteer from "puppeteer-core";

const [executablePath, ...urls] = process.argv.slice(2);
const browser = await puppeteer.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
const page = await browser.newPage();
await page.setBypassCSP(true); // for axe
let checked = 0;
for (const url of urls) {
  for (const [width, height] of [[1280, 900], [390, 844]]) {
    for (const value of ["light", "dark"]) {
      await page.setViewport({ width, height });
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value }]);
      await page.goto(url);
      await page.addScriptTag({ path: createRequire(import.meta.url).resolve("axe-core/axe.min.js") });
      const result = await page.evaluate("axe.run()");
      checked += result.passes.length;
      for (const v of result.violations) {
        console.error(`${url} ${width} ${value}: ${v.id}: ${v.help}\n${v.nodes.map((n) => n.html).join("\n")}`);
        process.exitCode = 1;
      }
    }
  }
}
await browser.close();
if (checked === 0) throw new Error("no rule was checked");
