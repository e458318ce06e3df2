// Fills in the form from the fragment of the address, where the bookmarklet puts the page.
"use strict";

const form = document.getElementById("save");
const page = new URLSearchParams(location.hash.slice(1));
if (form && page.has("url")) {
  for (const name of ["url", "title", "text"]) {
    const field = form.elements[name];
    field.value = (page.get(name) ?? "").slice(0, field.maxLength);
  }
  history.replaceState(null, "", location.pathname);
}
