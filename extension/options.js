// Keeps the address and the key, and asks for access to that address alone.
const form = document.querySelector("form");
const status = document.querySelector("[role=status]");
const addressField = document.getElementById("address");
const keyField = document.getElementById("key");

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const { origin, protocol, hostname } = new URL(addressField.value);
  if (protocol !== "https:" && !["localhost", "127.0.0.1", "[::1]"].includes(hostname)) {
    status.textContent = "Begin the address with https://, so that nobody else reads the key.";
    return;
  }
  const granted = await chrome.permissions.request({ origins: [`${protocol}//${hostname}/*`] });
  if (!granted) {
    status.textContent = "Without access to this address, nothing can be saved there.";
    return;
  }
  await chrome.storage.local.set({ address: origin, key: keyField.value.trim() });
  status.textContent = "Kept. Open a page, and press the button of this extension.";
});

const { address, key } = await chrome.storage.local.get(["address", "key"]);
if (address) addressField.value = address;
if (key) keyField.value = key;
