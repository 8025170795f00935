// Keys and live counts of the console. Every key presses a button or follows a link that is on the page.
"use strict";
(() => {
  const items = () => [...document.querySelectorAll(".item")];
  const move = (step) => {
    const all = items();
    const here = all.findIndex((item) => item.contains(document.activeElement));
    const next = all[Math.min(Math.max(here + step, 0), all.length - 1)];
    if (next) {
      next.focus();
      next.scrollIntoView({ block: "nearest" });
    }
  };

  document.addEventListener("keydown", (event) => {
    const target = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.repeat ||
        target.matches("textarea, select, input:not([type=checkbox]):not([type=radio])")) {
      if (event.key === "Escape") target.blur();
      return;
    }
    const item = target.closest(".item");
    const named = (scope) => [...scope.querySelectorAll("[data-key]")].find((e) => e.dataset.key === event.key);
    const pressed = (item && named(item)) || named(document);
    if (pressed) {
      event.preventDefault();
      if (pressed.matches("input[type=search], input[type=text]")) {
        pressed.focus();
        pressed.select();
      } else {
        pressed.click();
      }
      return;
    }
    switch (event.key) {
      case "j": move(1); break;
      case "k": move(-1); break;
      case "x": item?.querySelector("input[type=checkbox]")?.click(); break;
      default: return;
    }
    event.preventDefault();
  });

  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-all]")) {
      for (const box of event.target.form.querySelectorAll("input[type=checkbox]:not([data-all])")) box.checked = event.target.checked;
    }
  });

  // A form is sent once, however often its button is pressed.
  document.addEventListener("submit", (event) => {
    if (event.target.dataset.sent) event.preventDefault();
    event.target.dataset.sent = "yes";
  });
  addEventListener("pageshow", () => {
    for (const form of document.forms) delete form.dataset.sent;
  });

  const address = document.body.dataset.counts;
  if (address) {
    setInterval(async () => {
      if (document.hidden) return;
      try {
        const answer = await fetch(address);
        if (!answer.ok || answer.redirected) return;
        const counts = await answer.json();
        for (const place of document.querySelectorAll("[data-count]")) place.textContent = counts[place.dataset.count];
      } catch {
        // The counts stay as they are until the service answers again.
      }
    }, 15000);
  }

  // The list of the history follows the log: it asks for what is newer than its first line.
  const follow = document.querySelector("[data-follow]");
  if (follow) {
    follow.hidden = false;
    follow.addEventListener("click", () => {
      follow.setAttribute("aria-pressed", follow.getAttribute("aria-pressed") !== "true");
    });
    setInterval(async () => {
      if (document.hidden || follow.getAttribute("aria-pressed") !== "true") return;
      try {
        const link = document.querySelector("[data-newer]");
        const answer = await fetch(link.href);
        if (!answer.ok || answer.redirected) return;
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const lines = page.querySelectorAll("[data-live] > li");
        if (lines.length === 0) return;
        if (page.querySelector("[rel=next]")) { // more than a page of them
          location.reload();
          return;
        }
        document.querySelector("[data-live]").prepend(...lines);
        link.href = page.querySelector("[data-newer]").getAttribute("href");
      } catch {
        // The list stays as it is until the service answers again.
      }
    }, 5000);
  }
})();
