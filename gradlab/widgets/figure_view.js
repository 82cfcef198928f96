// A figure as an <img> with alt text; over it, where a probe is followed, a slider without a face
// that takes pointer and keys. Frames come as PNG in a binary buffer; the newest wins, since each
// replaces the one before.

function render({ model, el }) {
  const frame = document.createElement("div");
  frame.className = "gradlab-frame";
  const image = document.createElement("img");
  image.className = "gradlab-figure";
  image.draggable = false;
  const probe = document.createElement("div");
  probe.className = "gradlab-probe";
  probe.tabIndex = 0;
  probe.setAttribute("role", "slider");
  frame.append(image, probe);
  el.append(frame);

  let address = null;
  const showFrame = () => {
    const old = address;
    address = URL.createObjectURL(new Blob([model.get("png")], { type: "image/png" }));
    image.onload = () => old && URL.revokeObjectURL(old);
    image.src = address;
  };
  const showAlt = () => {
    image.alt = model.get("alt");
    probe.setAttribute("aria-valuetext", model.get("alt"));
  };
  const showSize = () => {
    image.style.width = `${model.get("width")}px`;
  };

  const track = () => model.get("probe_track");
  const showProbe = () => {
    const { label, low, high, left, right } = track();
    probe.hidden = label === undefined;
    if (probe.hidden) return;
    probe.setAttribute("aria-label", label);
    probe.setAttribute("aria-valuemin", low);
    probe.setAttribute("aria-valuemax", high);
    probe.setAttribute("aria-valuenow", model.get("probe") ?? low);
    probe.style.left = `${100 * left}%`;
    probe.style.width = `${100 * (right - left)}%`;
  };
  const move = (value) => {
    const { low, high } = track();
    const kept = Math.min(high, Math.max(low, value));
    // Twelve digits: a step of 0.06 added five times is 0.3, not 0.30000000000000004.
    model.set("probe", Number(kept.toPrecision(12)));
    model.save_changes();
  };
  const moveTo = (event) => {
    const { low, high, step } = track();
    const box = probe.getBoundingClientRect();
    const raw = low + ((high - low) * (event.clientX - box.left)) / box.width;
    move(Math.round(raw / step) * step);
  };

  probe.addEventListener("pointerdown", (event) => {
    probe.setPointerCapture(event.pointerId);
    probe.focus({ preventScroll: true });
    moveTo(event);
    event.preventDefault();
  });
  probe.addEventListener("pointermove", (event) => {
    if (probe.hasPointerCapture(event.pointerId)) moveTo(event);
  });
  probe.addEventListener("keydown", (event) => {
    const { low, high, step } = track();
    const here = model.get("probe") ?? low;
    const target = {
      ArrowLeft: here - step, ArrowDown: here - step,
      ArrowRight: here + step, ArrowUp: here + step,
      PageDown: here - 10 * step, PageUp: here + 10 * step,
      Home: low, End: high,
    }[event.key];
    if (target === undefined) return;
    move(target);
    event.preventDefault();
    event.stopPropagation();
  });

  const listeners = {
    "change:png": showFrame,
    "change:alt": showAlt,
    "change:width": showSize,
    "change:probe": showProbe,
    "change:probe_track": showProbe,
  };
  for (const [name, listener] of Object.entries(listeners)) model.on(name, listener);
  showFrame();
  showAlt();
  showSize();
  showProbe();

  if (window.devicePixelRatio !== model.get("pixel_ratio")) {
    model.set("pixel_ratio", window.devicePixelRatio);
    model.save_changes();
  }
  return () => {
    for (const [name, listener] of Object.entries(listeners)) model.off(name, listener);
    URL.revokeObjectURL(address);
  };
}

export default { render };
