// A number as a range input and a number input of the same name. A log slider moves the exponent.

function render({ model, el }) {
  const log = model.get("log");
  const inward = (value) => (log ? Math.log10(value) : value);
  // Six digits in ratios: a log slider has no grid of its own that would end in round numbers.
  const outward = (value) => (log ? Number((10 ** value).toPrecision(3)) : value);
  const label = model.get("label");
  const unit = model.get("unit");

  const row = document.createElement("div");
  row.className = "gradlab-number";
  row.title = model.get("help");
  const name = document.createElement("label");
  name.textContent = unit ? `${label} (${unit})` : label;
  const slider = document.createElement("input");
  slider.type = "range";
  slider.setAttribute("role", "slider");
  slider.setAttribute("aria-label", `${label} slider`);
  slider.min = inward(model.get("low"));
  slider.max = inward(model.get("high"));
  slider.step = log ? (slider.max - slider.min) / 200 : model.get("step");
  const box = document.createElement("input");
  box.type = "number";
  box.min = model.get("low");
  box.max = model.get("high");
  box.step = log ? "any" : model.get("step");
  // Random, since each control may come with its own copy of this module: a counter would repeat.
  box.id = `gradlab-number-${Math.random().toString(36).slice(2)}`;
  name.htmlFor = box.id;
  row.append(name, slider, box);
  el.append(row);

  const show = () => {
    const value = model.get("value");
    slider.value = inward(value);
    slider.setAttribute("aria-valuetext", unit ? `${value} ${unit}` : `${value}`);
    if (document.activeElement !== box || Number(box.value) !== value) box.value = value;
  };
  const send = (value) => {
    model.set("value", value);
    model.save_changes();
  };
  slider.addEventListener("input", () => send(outward(Number(slider.value))));
  box.addEventListener("change", () => {
    const typed = box.valueAsNumber;
    if (Number.isNaN(typed)) show();
    else send(Math.min(model.get("high"), Math.max(model.get("low"), typed)));
  });
  for (const input of [slider, box]) {
    // The notebook takes arrows and Enter for itself otherwise: some keys before they get here.
    input.dataset.lmSuppressShortcuts = "true";
    input.addEventListener("keydown", (event) => event.stopPropagation());
  }
  model.on("change:value", show);
  show();
  return () => model.off("change:value", show);
}

export default { render };
