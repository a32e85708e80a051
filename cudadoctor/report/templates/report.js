"use strict";
// Without this script the page says the same; it adds buttons that copy and unfold.
(() => {
  const status = document.getElementById("status");
  const folds = () => [...document.querySelectorAll("details")];

  async function copied(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // No clipboard for a page of plain HTTP: the older way.
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      return done;
    }
  }

  for (const button of document.querySelectorAll("button.copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const source = document.getElementById(button.dataset.of);
      const done = await copied(source.textContent);
      button.focus();
      const before = "Copy";
      button.textContent = done ? "Copied" : "Not copied";
      status.textContent = done ? "Copied to the clipboard" : "The browser refused to copy; select the text";
      setTimeout(() => { button.textContent = before; status.textContent = ""; }, 2000);
    });
  }

  const all = document.getElementById("unfold");
  if (all) {
    all.hidden = false;
    all.addEventListener("click", () => {
      const open = folds().some((fold) => !fold.open);
      for (const fold of folds()) fold.open = open;
      all.textContent = open ? "Fold all" : "Unfold all";
    });
  }
})();
