// Files that are dropped anywhere on the page are added like chosen ones. Without this script, the
// form works all the same.
const form = document.getElementById("upload");
const field = form?.elements.files;
const problem = document.getElementById("upload-problem");

function findProblem(files) {
  const { maxFiles, maxBytes } = form.dataset;
  const bytes = files.reduce((sum, file) => sum + file.size, 0);
  if (files.length > maxFiles) return `Add at most ${maxFiles} files at once.`;
  return bytes > maxBytes ? "These files are too large in total. Add them in smaller batches." : "";
}

function hasFolder(items) {
  return [...items].some((item) => item.webkitGetAsEntry?.()?.isDirectory);
}

function show(text) {
  problem.textContent = text;
  problem.hidden = !text;
}

form?.addEventListener("submit", (event) => {
  const text = findProblem([...field.files]);
  show(text);
  if (text) event.preventDefault();
  else form.querySelector("button").textContent = "Adding the files …";
});

if (form) {
  document.addEventListener("dragover", (event) => {
    if (event.dataTransfer.types.includes("Files")) event.preventDefault();
  });
  document.addEventListener("drop", (event) => {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    if (hasFolder(event.dataTransfer.items)) {
      show("A folder cannot be dropped here. Drop the files in it, or follow it as described below.");
      return;
    }
    field.files = event.dataTransfer.files;
    form.requestSubmit();
  });
}
