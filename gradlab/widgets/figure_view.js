// A figure on a <canvas> that reads aloud; over it, where a probe is followed, a slider without a
// face that takes pointer and keys. The background and each frame come as deflated runs of one
// colour; the newest frame wins, since each needs the background alone.

async function inflated({ buffer, byteOffset, byteLength }) {
  const stream = new DecompressionStream("deflate");
  const writer = stream.writable.getWriter();
  writer.write(new Uint8Array(buffer, byteOffset, byteLength));
  writer.close();
  return new Uint32Array(await new Response(stream.readable).arrayBuffer());
}

function eachRun(runs, see) {
  const count = runs.length / 3;
  for (let i = 0, at = 0; i < count; i++) {
    const end = at + runs[i] + runs[count + i];
    see(at + runs[i], end, runs[2 * count + i]);
    at = end;
  }
}

// Show the model's frames on a canvas: decode as they come, paint the newest once a screen frame.
function painter(model, canvas) {
  const context = canvas.getContext("2d");
  let asked = 0;
  let decoded = 0;
  let next = null; // what is to be painted
  let painted = []; // the runs that lie over the background
  let version = null;
  let base, shown, image;

  const prepare = ({ width, height }, runs) => {
    canvas.width = width;
    canvas.height = height;
    image = context.createImageData(width, height);
    shown = new Uint32Array(image.data.buffer);
    eachRun(runs, (from, to, colour) => shown.fill(colour, from, to));
    base = shown.slice();
    painted = [];
  };
  const paint = () => {
    const { background, baseRuns, runs } = next;
    next = null;
    if (baseRuns) {
      prepare(background, baseRuns);
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
    next = { background, baseRuns, runs };
  };
}

function render({ model, el }) {
  const frame = document.createElement("div");
  frame.className = "gradlab-frame";
  const canvas = document.createElement("canvas");
  canvas.className = "gradlab-figure";
  canvas.setAttribute("role", "img");
  const probe = document.createElement("div");
  probe.className = "gradlab-probe";
  probe.tabIndex = 0;
  probe.setAttribute("role", "slider");
  frame.append(canvas, probe);
  el.append(frame);

  const showFrame = painter(model, canvas);
  const showAlt = () => {
    canvas.setAttribute("aria-label", model.get("alt"));
    probe.setAttribute("aria-valuetext", model.get("alt"));
  };
  const showSize = () => {
    canvas.style.width = `${model.get("width")}px`;
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
    "change:background": showFrame,
    "change:frame": showFrame,
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
  };
}

export default { render };
