// Runs in the page that is saved, so it may use nothing from outside its function.

export function readPage() {
  if (document.contentType !== "text/html") return null;
  const shadowRoots = [];
  const collect = (root) => {
    for (const { shadowRoot } of root.querySelectorAll("*")) {
      if (!shadowRoot) continue;
      shadowRoots.push(shadowRoot);
      collect(shadowRoot);
    }
  };
  collect(document);
  const root = document.documentElement;
  const [, opening] = root.cloneNode(false).outerHTML.match(/^(.*)<\/html>$/s);
  return {
    url: location.href,
    title: document.title,
    text: String(getSelection()).trim(),
    html: `<!doctype html>${opening}${root.getHTML({ shadowRoots })}</html>`,
  };
}
