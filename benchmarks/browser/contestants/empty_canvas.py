"""No picture at all: what a slider, one round trip to the kernel and a paint take."""

import anywidget
import traitlets


class Floor(anywidget.AnyWidget):
    """A slider, and a canvas filled with one colour when the kernel says so."""

    _esm = """
    export default { render({ model, el }) {
      const slider = Object.assign(document.createElement("input"),
        { type: "range", min: 0.5, max: 4.5, step: 0.01, value: 2 });
      const canvas = Object.assign(document.createElement("canvas"), { width: 720, height: 480 });
      const context = canvas.getContext("2d");
      slider.style.width = "300px";
      slider.addEventListener("keydown", (event) => event.stopPropagation());
      slider.addEventListener("input", () => {
        model.set("value", Number(slider.value));
        model.save_changes();
      });
      const paint = () => {
        context.fillStyle = `hsl(${model.get("answer")} 50% 50%)`;
        context.fillRect(0, 0, 720, 480);
      };
      model.on("change:answer", paint);
      paint();
      el.append(slider, canvas);
    } };
    """
    value = traitlets.Float(2.0).tag(sync=True)
    answer = traitlets.Float(0.0).tag(sync=True)

    @traitlets.observe("value")
    def _answer(self, change):
        self.answer = 3700 * change.new % 360


Floor()
