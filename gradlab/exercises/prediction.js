// A question with choices, one of which can be committed: the view of gradlab's Prediction.
// Native radio buttons in a fieldset, so that arrow keys and screen readers find what they expect.

let forms = 0;

function element(tag, className, html = "") {
  const made = document.createElement(tag);
  made.className = className;
  made.innerHTML = html;
  return made;
}

// JupyterLab takes the arrow keys for its cells, unless the focused element itself declines.
function keepKeys(control) {
  control.dataset.lmSuppressShortcuts = "true";
  return control;
}

function choiceRow(model, name, html, index) {
  const radio = keepKeys(element("input", ""));
  Object.assign(radio, { type: "radio", name, value: index });
  radio.addEventListener("change", () => send(model, { _chosen: index }));
  const row = element("label", "gradlab-choice");
  row.append(radio, element("span", "", html));
  return { row, radio };
}

function send(model, values) {
  for (const [key, value] of Object.entries(values)) model.set(key, value);
  model.save_changes();
}

function toggle(model) {
  const again = model.get("committed");
  send(model, again ? { committed: false, _chosen: -1 } : { committed: true });
}

function render({ model, el }) {
  const form = element("fieldset", "gradlab-prediction");
  const name = `gradlab-prediction-${(forms += 1)}`;
  const choices = model.get("_labels").map((html, i) => choiceRow(model, name, html, i));
  const button = keepKeys(element("button", "gradlab-commit"));
  button.type = "button";
  button.addEventListener("click", () => toggle(model));
  const remark = element("div", "gradlab-remark");
  remark.setAttribute("role", "status"); // read out when it appears
  const question = element("legend", "", model.get("_question"));
  form.append(question, ...choices.map(({ row }) => row), button, remark);

  function show() {
    const committed = model.get("committed");
    choices.forEach(({ radio }, i) => {
      radio.checked = i === model.get("_chosen");
      radio.disabled = committed;
    });
    button.textContent = committed ? "Guess again" : "Commit";
    button.disabled = model.get("_chosen") < 0;
    remark.innerHTML = model.get("_remark");
  }
  model.on("change", show);
  show();
  el.append(form);
  return () => model.off("change", show);
}

export default { render };
