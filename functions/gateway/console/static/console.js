// Keyboard shortcuts of the search page, and numbers and dates in the browser's locale. Pages work
// without this script.
"use strict";

const field = document.getElementById("q");
const hits = [...document.querySelectorAll("[data-hit]")];

function moveFocus(step) {
  const position = hits.indexOf(document.activeElement) + step;
  const next = position < 0 ? field : hits[Math.min(position, hits.length - 1)];
  next?.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const isTyping = event.target.closest("input, textarea, select");
  if (event.key === "/" && !isTyping && field) {
    event.preventDefault();
    field.select();
  } else if ((!isTyping || event.target === field) && hits.length) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && (step > 0 || hits.includes(event.target))) {
      event.preventDefault();
      moveFocus(step);
    }
  }
});

for (const element of document.querySelectorAll("data[value]")) {
  element.textContent = Number(element.value).toLocaleString();
}
const days = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeZone: "UTC" });
const moments = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
for (const element of document.querySelectorAll("time[datetime]")) {
  const day = new Date(element.dateTime);
  const format = element.dateTime.includes("T") ? moments : days;
  if (!Number.isNaN(day.valueOf())) element.textContent = format.format(day);
}

for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    const text = button.closest("article")?.querySelector(".text").innerText.trim();
    await navigator.clipboard.writeText((text ? `“${text}”\n` : "") + button.dataset.copy);
    button.textContent = "Copied";
  });
}

// A key is shown once. Browsers may keep a page to go back to, so the key is removed from it.
addEventListener("pagehide", () => {
  for (const element of document.querySelectorAll("[data-secret]")) element.remove();
});
