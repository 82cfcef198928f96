// Python code to open, read and copy.

// Each explorer has this box, so here is where the notebook is told to leave keys alone: it takes
// arrows, Enter and more from lists, checkboxes and buttons that don't decline, each for itself.
function keepKeys({ target }) {
  if (target.closest(".gradlab-explorer")) target.dataset.lmSuppressShortcuts = "true";
}

function render({ model, el }) {
  const box = document.createElement("details");
  box.className = "gradlab-code";
  const summary = document.createElement("summary");
  summary.textContent = "Code";
  const text = document.createElement("pre");
  text.tabIndex = 0; // a long line is scrolled from the keyboard
  const copy = document.createElement("button");
  copy.type = "button";
  copy.textContent = "Copy";
  const said = document.createElement("span");
  said.setAttribute("role", "status");
  box.append(summary, text, copy, said);
  el.append(box);

  const show = () => {
    text.textContent = model.get("code");
    said.textContent = "";
  };
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(model.get("code"));
      said.textContent = "copied";
    } catch {
      // No clipboard here, such as in a frame of another site: select it for Ctrl+C.
      getSelection().selectAllChildren(text);
      said.textContent = "selected: copy it with Ctrl+C";
    }
  });
  // The notebook takes Enter and the space bar for itself otherwise.
  box.addEventListener("keydown", (event) => event.stopPropagation());
  document.addEventListener("focusin", keepKeys);
  model.on("change:code", show);
  show();
  return () => model.off("change:code", show);
}

export default { render };
