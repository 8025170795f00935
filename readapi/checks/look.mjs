// node look.mjs CHROMIUM PICTURES URL…: opens pages in windows of three sizes, light and dark, and checks them with axe.
// No page is wider than its window, teasers and covers are links, and the comment that an address names is in its upper half. Saves a picture of each
// in the directory PICTURES; "" for none.
import { createRequire } from "node:module";
import puppeteer from "puppeteer-core";

const [executablePath, pictures, ...urls] = process.argv.slice(2);
const browser = await puppeteer.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
const page = await browser.newPage();
await page.setBypassCSP(true); // for axe
let checked = 0;
const fail = (...text) => {
  console.error(...text);
  process.exitCode = 1;
};
for (const [number, url] of urls.entries()) {
  for (const [width, height] of [[1280, 900], [390, 844], [320, 640]]) {
    for (const value of ["light", "dark"]) {
      await page.setViewport({ width, height });
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value }]);
      await page.goto("about:blank"); // a change of the fragment alone would load nothing
      await page.goto(url);
      if (pictures) await page.screenshot({ path: `${pictures}/${number}-${width}-${value}.png` });
      const { wide, spilled, top } = await page.evaluate(() => ({
        wide: document.documentElement.scrollWidth - window.innerWidth,
        spilled: [...document.querySelectorAll(".post, h1, .text, .book")].filter((e) => {
          const r = e.getBoundingClientRect();
          return r.right > window.innerWidth + 1 || r.left < -1;
        }).length,
        top: (document.querySelector(":target") || document.body).getBoundingClientRect().top,
      }));
      const beside = await page.evaluate(() => [...document.querySelectorAll(".remark .teaser, .book .teaser, .covers .cover")].filter((e) => {
        e.scrollIntoView();
        const r = e.getBoundingClientRect();
        return !document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2)?.closest("a");
      }).length);
      if (beside > 0) fail(`${url} ${width}: ${beside} teasers and covers lead nowhere`);
      if (wide > 0 || spilled > 0) fail(`${url} ${width}: ${wide} pixels too wide, ${spilled} elements reach out`);
      if (url.includes("#") && (top < 0 || top > height / 2)) fail(`${url} ${width}: the comment begins at ${top}`);
      await page.addScriptTag({ path: createRequire(import.meta.url).resolve("axe-core/axe.min.js") });
      const result = await page.evaluate("axe.run()");
      checked += result.passes.length;
      for (const v of result.violations) {
        fail(`${url} ${width} ${value}: ${v.id}: ${v.help}\n${v.nodes.map((n) => n.html).join("\n")}`);
      }
    }
  }
}
await browser.close();
if (checked === 0) throw new Error("no rule was checked");
