// Sends the page of the active tab to Carrel when its button is pressed.
import { readPage } from "./page.js";

const form = document.querySelector("form");
const button = document.querySelector("button");
const status = document.querySelector("[role=status]");

async function readActiveTab() {
  const [tab] = await chrome.tabs.query({ active: true, currentWindow: true });
  try {
    const [injected] = await chrome.scripting.executeScript({
      target: { tabId: tab.id },
      func: readPage,
    });
    if (injected.result) return injected.result;
  } catch {
    // Browsers keep extensions out of their own pages and stores.
  }
  throw new Error("This is not a web page that can be read.");
}

function shorten(html) {
  // A document of DOMParser neither runs scripts nor loads anything.
  const page = new DOMParser().parseFromString(html, "text/html");
  const unread = "script:not([type^='math/'], [type='application/ld+json']), style, svg, iframe";
  for (const element of page.querySelectorAll(unread)) element.remove();
  return page.documentElement.outerHTML.replace(/data:[\w/+.;=-]*,[^"'\s)>]{400,}/g, "data:,");
}

async function save(page, { address, key }) {
  const response = await fetch(`${address}/save/page`, {
    method: "POST",
    credentials: "omit",
    redirect: "error",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ ...page, text: document.getElementById("text").value.toWellFormed() }),
  });
  const answer = await response.json();
  status.textContent = answer.message;
  return { ok: response.ok, canReplace: answer.can_replace };
}

async function start() {
  const settings = await chrome.storage.local.get(["address", "key"]);
  if (!settings.address || !settings.key) {
    await chrome.runtime.openOptionsPage();
    return;
  }
  const page = await readActiveTab();
  document.querySelector("h1").textContent = page.title || page.url;
  document.getElementById("text").value = page.text;
  button.disabled = false;
  let replace = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    status.textContent = "Saving …";
    try {
      const html = shorten(page.html).toWellFormed();
      const { ok, canReplace } = await save({ ...page, html, replace }, settings);
      button.disabled = ok;
      if (canReplace) {
        replace = true;
        button.textContent = "Replace what is stored";
      }
    } catch {
      status.textContent = `There is no Carrel at ${settings.address}, or it does not run.`;
      button.disabled = false;
    }
  });
}

start().catch((error) => {
  status.textContent = error.message;
});
