// A figure on a <canvas> that reads aloud; over it, where a probe is followed, a slider without a
// face that takes pointer and keys; beside the pointer, what the axes have there; in the corner,
// buttons that save.

// Frames: the background and each frame come as deflated runs of one colour. Each frame needs the
// background alone, so the newest wins.

// Read part by part: a Response would gather the parts in a task of its own, which has to queue
// behind those of the messages that follow the frame's.
async function inflated({ buffer, byteOffset, byteLength }) {
  const stream = new DecompressionStream("deflate");
  const writer = stream.writable.getWriter();
  writer.write(new Uint8Array(buffer, byteOffset, byteLength));
  writer.close();
  const reader = stream.readable.getReader();
  const parts = [];
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    parts.push(part.value);
  }
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return new Uint32Array(whole.buffer);
}

function eachRun(runs, see) {
  const count = runs.length / 3;
  for (let i = 0, at = 0; i < count; i++) {
    const end = at + runs[i] + runs[count + i];
    see(at + runs[i], end, runs[2 * count + i]);
    at = end;
  }
}

// Decodes frames as they come, and paints the newest once for each frame of the screen.
function painter(model, canvas) {
  const context = canvas.getContext("2d");
  let asked = 0;
  let decoded = 0;
  let next = null; // what is to be painted
  let painted = []; // the runs that lie over the background
  let version = null;
  let base, shown, image;

  const prepare = ({ width, height }, runs, cssWidth) => {
    canvas.width = width;
    canvas.height = height;
    canvas.style.width = `${cssWidth}px`;
    image = context.createImageData(width, height);
    shown = new Uint32Array(image.data.buffer);
    eachRun(runs, (from, to, colour) => shown.fill(colour, from, to));
    base = shown.slice();
    painted = [];
  };
  const paint = () => {
    const { background, cssWidth, baseRuns, runs } = next;
    next = null;
    if (baseRuns) {
      prepare(background, baseRuns, cssWidth);
      version = background.version;
    }
    eachRun(painted, (from, to) => shown.set(base.subarray(from, to), from));
    eachRun(runs, (from, to, colour) => shown.fill(colour, from, to));
    painted = runs;
    context.putImageData(image, 0, 0);
  };
  return async () => {
    const background = model.get("background");
    const frame = model.get("frame");
    const cssWidth = model.get("width");
    if (frame.version !== background.version) return; // its background is still on the way
    const turn = ++asked;
    const fresh = background.version !== version;
    const [runs, baseRuns] = await Promise.all([
      inflated(frame.runs),
      fresh ? inflated(background.runs) : null,
    ]);
    if (turn < decoded) return; // outrun by a newer one
    decoded = turn;
    if (next === null) requestAnimationFrame(paint);
    next = { background, cssWidth, baseRuns, runs };
  };
}

// The page: how wide a column it has, how dense the display is, light or dark.

function pageTheme() {
  const { body, documentElement: root } = document;
  const named = (name) => body.classList.contains(name);
  const lab = body.dataset.jpThemeLight; // JupyterLab and Notebook 7
  if (lab) return lab === "false" ? "dark" : "light";
  if (named("vscode-light") || named("theme-light")) return "light"; // VS Code; Voilà
  if (named("vscode-dark") || named("vscode-high-contrast") || named("theme-dark")) return "dark";
  const colab = root.getAttribute("theme");
  if (colab) return colab === "dark" ? "dark" : "light";
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

function watchPage(model, column) {
  let timer = null;
  const tell = () => {
    const width = Math.floor(column.clientWidth);
    if (width > 0) model.set("room", width); // 0: hidden
    model.set("pixel_ratio", window.devicePixelRatio);
    model.set("theme", pageTheme());
    model.save_changes();
  };
  const tellSoon = () => {
    clearTimeout(timer);
    timer = setTimeout(tell, 120);
  };
  const sizes = new ResizeObserver(tellSoon);
  sizes.observe(column);
  const themes = new MutationObserver(() => pageTheme() !== model.get("theme") && tellSoon());
  for (const element of [document.body, document.documentElement]) {
    themes.observe(element, { attributes: true });
  }
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", tellSoon);
  let density = null;
  const watchDensity = () => {
    density?.removeEventListener("change", denser);
    density = matchMedia(`(resolution: ${window.devicePixelRatio}dppx)`);
    density.addEventListener("change", denser);
  };
  const denser = () => {
    watchDensity();
    tellSoon();
  };
  watchDensity();
  tell();
  return () => {
    clearTimeout(timer);
    sizes.disconnect();
    themes.disconnect();
    dark.removeEventListener("change", tellSoon);
    density.removeEventListener("change", denser);
  };
}

// Coordinates: from a part of the way along an axis to what it stands for, and back.

function axisOf(place, which) {
  const log = place.log[which];
  const inward = log ? Math.log10 : (value) => value;
  const outward = log ? (value) => 10 ** value : (value) => value;
  const [first, last] = place.limits[which].map(inward);
  const [low, high] = [...place.limits[which]].sort((a, b) => a - b);
  // Twelve digits: a step of 0.06 added five times is 0.3, not 0.30000000000000004.
  const kept = (value) => Number(Math.min(high, Math.max(low, value)).toPrecision(12));
  const stepOf = (step) => step ?? Math.abs(last - first) / 100;
  return {
    low,
    high,
    at: (part) => outward(first + part * (last - first)),
    snapped: (part, step) => {
      const raw = first + part * (last - first);
      return kept(outward(Math.round(raw / stepOf(step)) * stepOf(step)));
    },
    moved: (value, steps, step) => kept(outward(inward(value) + steps * stepOf(step))),
    // As many digits as a pixel is worth.
    text: (value) => {
      const digits = Math.ceil(-Math.log10(Math.abs(last - first) / 500));
      return log || digits < -4 || digits > 9
        ? `${Number(value.toPrecision(3))}`
        : `${Number(value.toFixed(Math.max(0, digits)))}`;
    },
  };
}

// The probe

const KEYS = {
  ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowDown: [1, -1], ArrowUp: [1, 1],
  PageDown: [1, -10], PageUp: [1, 10], Home: [0, -Infinity], End: [0, Infinity],
};

function probeOver(model) {
  const probe = document.createElement("div");
  probe.className = "gradlab-probe";
  probe.tabIndex = 0;
  probe.dataset.lmSuppressShortcuts = "true"; // JupyterLab would take the arrows
  probe.setAttribute("role", "slider");

  const track = () => model.get("probe_track");
  const place = () => model.get("places").find(({ axes }) => axes === track().axes);
  const axes = () => [axisOf(place(), 0), axisOf(place(), 1)];
  const state = () => {
    const value = model.get("probe") ?? axes().map(({ low }) => low);
    return Array.isArray(value) ? value : [value];
  };
  const show = () => {
    const { label, plane } = track();
    probe.hidden = label === undefined || !place();
    if (probe.hidden) return;
    const [x, y] = axes();
    const [left, bottom, right, top] = place().box;
    const words = plane
      ? `x ${x.text(state()[0])}, y ${y.text(state()[1])}`
      : x.text(state()[0]);
    if (plane) probe.setAttribute("aria-roledescription", "2-D slider");
    probe.classList.toggle("gradlab-plane", plane);
    probe.setAttribute("aria-label", label);
    probe.setAttribute("aria-valuemin", x.low);
    probe.setAttribute("aria-valuemax", x.high);
    probe.setAttribute("aria-valuenow", state()[0]);
    probe.setAttribute("aria-valuetext", `${words}; ${model.get("alt")}`);
    probe.style.left = `${100 * left}%`;
    probe.style.width = `${100 * (right - left)}%`;
    probe.style.top = plane ? `${100 * (1 - top)}%` : 0;
    probe.style.bottom = plane ? `${100 * bottom}%` : 0;
  };
  const move = (values) => {
    model.set("probe", track().plane ? values : values[0]);
    model.save_changes();
  };
  const moveTo = ({ clientX, clientY }) => {
    const box = probe.getBoundingClientRect();
    const parts = [(clientX - box.left) / box.width, 1 - (clientY - box.top) / box.height];
    move(axes().map((axis, i) => axis.snapped(parts[i], track().steps[i])));
  };

  // A finger may be about to scroll the page: it moves the probe once it goes along, or taps.
  const SLOP = 8; // CSS pixels
  let start = null; // where a finger was put down, until it is known what it's about
  const goesAlong = ({ clientX, clientY, type }) => {
    const [x, y] = [Math.abs(clientX - start.clientX), Math.abs(clientY - start.clientY)];
    if (type === "pointerup") return Math.max(x, y) < SLOP;
    return track().plane ? Math.max(x, y) > SLOP : x > SLOP && x > y;
  };
  probe.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    probe.setPointerCapture(event.pointerId);
    probe.focus({ preventScroll: true });
    start = event.pointerType === "touch" ? event : null;
    if (!start) moveTo(event);
    event.preventDefault();
  });
  for (const kind of ["pointermove", "pointerup"]) {
    probe.addEventListener(kind, (event) => {
      if (!probe.hasPointerCapture(event.pointerId) || (start && !goesAlong(event))) return;
      start = null;
      moveTo(event);
    });
  }
  probe.addEventListener("keydown", (event) => {
    if (!KEYS[event.key] || event.ctrlKey || event.altKey || event.metaKey) return;
    const [direction, steps] = KEYS[event.key];
    const which = track().plane ? direction : 0;
    const values = [...state()];
    const axis = axes()[which];
    values[which] = Number.isFinite(steps)
      ? axis.moved(values[which], steps, track().steps[which])
      : steps > 0 ? axis.high : axis.low;
    move(values);
    event.preventDefault();
    event.stopPropagation();
  });
  return { probe, show };
}

// The readout: coordinates at once, and in words from Python what is drawn there. One question is
// on its way at a time.

function readoutOver(model, frame, canvas, who) {
  const label = document.createElement("div");
  label.className = "gradlab-readout";
  label.setAttribute("aria-hidden", "true"); // the alt text tells more, and in peace
  label.hidden = true;
  let here = null; // where the pointer is
  let sent = null; // where it was when Python was asked
  let sentAt = 0;
  let answeredAt = 0;

  const under = ({ clientX, clientY }) => {
    const box = canvas.getBoundingClientRect();
    const [x, y] = [(clientX - box.left) / box.width, 1 - (clientY - box.top) / box.height];
    for (const place of model.get("places")) {
      const [left, bottom, right, top] = place.box;
      if (x < left || x > right || y < bottom || y > top) continue;
      const axes = [axisOf(place, 0), axisOf(place, 1)];
      const values = [axes[0].at((x - left) / (right - left)), axes[1].at((y - bottom) / (top - bottom))];
      return { index: place.axes, values, words: values.map((value, i) => axes[i].text(value)) };
    }
    return null;
  };
  const ask = () => {
    if (sent && performance.now() - sentAt < 1000) return;
    sent = here;
    sentAt = performance.now();
    const [x, y] = here.values;
    model.send({ kind: "readout", who, axes: here.index, x, y });
  };
  const hide = () => {
    here = null;
    label.hidden = true;
  };
  const coordinates = ([x, y]) => `x = ${x}, y = ${y}`;
  frame.addEventListener("pointermove", (event) => {
    here = under(event);
    if (!here) return hide();
    const box = frame.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    label.hidden = false;
    label.style.top = `${y}px`;
    label.style.left = x < box.width / 2 ? `${x + 14}px` : "auto";
    label.style.right = x < box.width / 2 ? "auto" : `${box.width - x + 14}px`;
    // While a drag keeps Python busy, or it is busy anyhow, there are no words from it.
    if (event.buttons || performance.now() - answeredAt > 300) {
      label.textContent = coordinates(here.words);
    }
    if (!event.buttons) ask();
  });
  for (const kind of ["pointerleave", "pointercancel"]) frame.addEventListener(kind, hide);
  const hear = ({ text }) => {
    const answered = sent;
    sent = null;
    answeredAt = performance.now();
    if (!here || !answered) return;
    label.textContent = text
      ? `x = ${answered.words[0]} · ${text}`
      : coordinates(answered.words);
    if (here !== answered) ask();
  };
  return { label, hear };
}

// Saving

function saveButtons(model, who) {
  const bar = document.createElement("div");
  bar.className = "gradlab-save";
  for (const format of ["png", "svg"]) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = format.toUpperCase();
    button.dataset.lmSuppressShortcuts = "true";
    button.setAttribute("aria-label", `Save the figure as ${button.textContent}`);
    button.title = `Save as ${button.textContent}`;
    button.addEventListener("click", () => model.send({ kind: "save", who, format }));
    bar.append(button);
  }
  return bar;
}

function download({ name }, [file]) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([file]));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

function render({ model, el }) {
  const who = Math.random().toString(36).slice(2); // other views of this model hear the answers too
  el.classList.add("gradlab-view");
  const column = document.createElement("div");
  column.className = "gradlab-column";
  column.style.containIntrinsicInlineSize = `${model.get("natural_width")}px`;
  const frame = document.createElement("div");
  frame.className = "gradlab-frame";
  const canvas = document.createElement("canvas");
  canvas.className = "gradlab-figure";
  canvas.setAttribute("role", "img");
  const { probe, show: showProbe } = probeOver(model);
  const { label, hear } = readoutOver(model, frame, canvas, who);
  frame.append(canvas, probe, label, saveButtons(model, who));
  column.append(frame);
  el.append(column);

  const showFrame = painter(model, canvas);
  const showAlt = () => {
    canvas.setAttribute("aria-label", model.get("alt"));
    showProbe();
  };
  const answer = (message, files) => {
    if (message.who === who) ({ readout: hear, save: download })[message.kind](message, files);
  };
  const listeners = {
    "change:background": showFrame,
    "change:frame": showFrame,
    "change:alt": showAlt,
    "change:probe": showProbe,
    "change:probe_track": showProbe,
    "change:places": showProbe,
    "msg:custom": answer,
  };
  for (const [name, listener] of Object.entries(listeners)) model.on(name, listener);
  showFrame();
  showAlt();
  const leavePage = watchPage(model, column);
  return () => {
    leavePage();
    for (const [name, listener] of Object.entries(listeners)) model.off(name, listener);
  };
}

export default { render };
