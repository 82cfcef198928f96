// Tells when a picture in a notebook's output has changed on the screen: the same for every
// contestant, in place before the page's own scripts.
//
// Pictures change in one of three ways: something is drawn on a canvas, an image has loaded, or
// the path of an SVG is another. What changes in a task is painted in the frame that follows, and
// has been painted when the one after that begins; what changes in a requestAnimationFrame is
// painted in the frame that is being made, and has been when the next begins. The time taken is
// the beginning of that frame, from the time stamp the browser gave the key. Then the pixels are
// compared with those before, and the frame counts if they differ.

(() => {
  const watch = { frames: [] };
  window.gradlabWatch = watch;
  let pressed, last, answer;
  let lastNow = 0;
  const beginFrame = window.requestAnimationFrame.bind(window);
  let inFrame = false;
  window.requestAnimationFrame = (callback) =>
    beginFrame((time) => {
      inFrame = true;
      // After the observers of what the callback changes, which are microtasks as well.
      try { return callback(time); } finally { queueMicrotask(() => { inFrame = false; }); }
    });

  // A number that is another when the pixels are: drawing is no proof that anything changed.
  const scratch = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const fingerprint = (picture) => {
    const width = picture.naturalWidth ?? picture.width;
    const height = picture.naturalHeight ?? picture.height;
    if (!width || !height) return 0;
    Object.assign(scratch.canvas, { width, height });
    scratch.drawImage(picture, 0, 0);
    const pixels = new Uint32Array(scratch.getImageData(0, 0, width, height).data.buffer);
    let hash = width;
    for (const pixel of pixels) hash = (Math.imul(hash, 31) + pixel) | 0;
    return hash;
  };
  const known = new WeakMap();
  let knownImage; // the last one of all, for a new one takes its place
  const differs = (node) => {
    if (node instanceof SVGElement) return true; // its path was compared
    const image = node instanceof HTMLImageElement;
    const [old, now] = [image ? knownImage : known.get(node), fingerprint(node)];
    if (image) knownImage = now;
    else known.set(node, now);
    return old !== now;
  };

  const painted = (node) => (time) => {
    const now = performance.now();
    if (!differs(node) || time === last) return;
    last = time;
    watch.frames.push(now);
    lastNow = now;
    answer?.(watch.frames[0] - pressed);
  };
  const changed = (node) => {
    if (!node.isConnected || !node.closest(".jp-OutputArea-output")) return;
    if (inFrame) beginFrame(painted(node));
    else beginFrame(() => beginFrame(painted(node)));
  };

  const hook = (type, method) => {
    const own = type.prototype[method];
    type.prototype[method] = function (...given) {
      const result = own.apply(this, given);
      if (this.canvas instanceof HTMLCanvasElement) changed(this.canvas);
      return result;
    };
  };
  for (const method of ["drawImage", "putImageData", "fill", "stroke", "fillRect"]) {
    hook(CanvasRenderingContext2D, method);
  }
  hook(ImageBitmapRenderingContext, "transferFromImageBitmap");

  // An element's load gets as far as the document.
  document.addEventListener("load", ({ target }) => {
    if (target instanceof HTMLImageElement) changed(target);
  }, true);

  new MutationObserver((records) => {
    for (const { target, oldValue } of records) {
      if (oldValue !== target.getAttribute("d")) changed(target);
    }
  }).observe(document, {
    subtree: true, attributes: true, attributeFilter: ["d"], attributeOldValue: true,
  });

  window.addEventListener("keydown", (event) => {
    pressed = event.timeStamp;
    answer = undefined;
    watch.frames = [];
  }, true);

  // The milliseconds from the key to the first frame after it.
  watch.answered = () => new Promise((resolve, reject) => {
    answer = resolve;
    if (watch.frames.length) resolve(watch.frames[0] - pressed);
    setTimeout(() => {
      const focus = document.activeElement?.outerHTML.slice(0, 90);
      reject(new Error(`${document.title}: nothing painted for 30 s; in focus: ${focus}`));
    }, 30000);
  });
  // Waits until nothing has been painted for so many milliseconds: what is late belongs to no key.
  watch.quiet = (milliseconds) => new Promise((resolve) => {
    const look = () =>
      performance.now() - lastNow > milliseconds ? resolve() : setTimeout(look, 10);
    look();
  });

  // What is to be seen, as text: to find out whether the first frame was the whole answer.
  watch.look = () => [...document.querySelectorAll(".jp-OutputArea-output :is(canvas, img, path)")]
    .map((one) => one.toDataURL?.() ?? one.src ?? one.getAttribute("d")).join("\n");
})();
