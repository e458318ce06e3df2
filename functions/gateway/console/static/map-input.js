// How people move a map with mouse, fingers, wheel and keys, and point at its parts.
"use strict";

/**
 * @typedef {object} Pointing Where a pointer is.
 * @property {number} x On the canvas, in CSS pixels.
 * @property {number} y
 * @property {"mouse" | "touch"} pointerType
 *
 * @typedef {object} InputHandlers What the map does when it is not moved.
 * @property {(pointing: Pointing) => void} onHover
 * @property {() => void} onLeave The mouse has left the map.
 * @property {(pointing: Pointing, inNewTab: boolean) => void} onClick
 * @property {(x: number, y: number) => void} onStep An arrow key was pressed: -1, 0 or 1 on each axis.
 * @property {() => void} onEnter
 * @property {() => void} onEscape
 */

/** Listens to a map's canvas and buttons, for as long as the page exists. */
class MapInput {
  static ZOOM_STEP = 1.6; // of the buttons and keys
  static DRAG_DISTANCE = { mouse: 5, touch: 10 }; // CSS pixels from which a press drags, not clicks
  static WHEEL_LINE = 16; // CSS pixels in a line, for wheels that report lines
  static MAX_WHEEL = 200; // CSS pixels of one event; some wheels report much more

  #canvas;
  #view;
  #handlers;
  #pressedPointers = new Map(); // their positions, by pointer id
  #pressedAt = { x: 0, y: 0 }; // where the first of them was pressed
  #hasDragged = false; // whether a pointer has dragged or pinched since then
  #pointerType = "mouse";

  /**
   * @param {HTMLElement} element As the macro `passage_map` makes it.
   * @param {MapView} view
   * @param {InputHandlers} handlers
   */
  constructor(element, view, handlers) {
    this.#canvas = element.querySelector("canvas");
    this.#view = view;
    this.#handlers = handlers;
    const on = (type, handle, options) =>
      this.#canvas.addEventListener(type, handle.bind(this), options);
    on("pointerdown", this.#onPointerDown);
    on("pointermove", this.#onPointerMove);
    for (const type of ["pointerup", "pointercancel"]) on(type, this.#onPointerUp);
    on("pointerleave", () => this.#pointerType === "mouse" && handlers.onLeave());
    on("click", this.#onClick);
    on("auxclick", (event) => event.button === 1 && this.#onClick(event));
    on("wheel", this.#onWheel, { passive: false });
    on("keydown", this.#onKeyDown);
    const onPress = (selector, act) => element.querySelector(selector).addEventListener("click", act);
    onPress("[data-zoom-in]", () => view.zoomBy(MapInput.ZOOM_STEP));
    onPress("[data-zoom-out]", () => view.zoomBy(1 / MapInput.ZOOM_STEP));
    onPress("[data-show-all]", () => view.showAll());
  }

  #positionIn(event) {
    const box = this.#canvas.getBoundingClientRect();
    return { x: event.clientX - box.x, y: event.clientY - box.y };
  }

  #onPointerDown(event) {
    this.#pointerType = event.pointerType === "touch" ? "touch" : "mouse";
    const position = this.#positionIn(event);
    if (this.#pressedPointers.size === 0) {
      this.#pressedAt = position;
      this.#hasDragged = false;
    }
    if (event.button !== 0) return; // only the main button drags
    this.#canvas.setPointerCapture(event.pointerId);
    this.#pressedPointers.set(event.pointerId, position);
  }

  #onPointerMove(event) {
    const position = this.#positionIn(event);
    const before = this.#pressedPointers.get(event.pointerId);
    if (!before) {
      this.#pointerType = event.pointerType === "touch" ? "touch" : "mouse";
      this.#handlers.onHover({ ...position, pointerType: this.#pointerType });
      return;
    }
    const other = [...this.#pressedPointers].find(([id]) => id !== event.pointerId)?.[1];
    this.#pressedPointers.set(event.pointerId, position);
    this.#hasDragged ||= Boolean(other) || this.#isFarFromPress(position);
    if (other) {
      this.#pinch(before, position, other);
    } else if (this.#hasDragged) {
      this.#canvas.classList.add("dragging");
      this.#view.panBy(before.x - position.x, before.y - position.y, false);
    }
  }

  /** Return whether a pointer is too far from where it was pressed for a click. */
  #isFarFromPress({ x, y }) {
    const distance = Math.hypot(x - this.#pressedAt.x, y - this.#pressedAt.y);
    return distance >= MapInput.DRAG_DISTANCE[this.#pointerType];
  }

  /** Zoom as two fingers spread or close, and pan with the middle between them. One finger moves. */
  #pinch(before, after, other) {
    const distance = (position) => Math.max(Math.hypot(position.x - other.x, position.y - other.y), 1);
    this.#view.panBy((before.x - after.x) / 2, (before.y - after.y) / 2, false);
    const middle = { x: (after.x + other.x) / 2, y: (after.y + other.y) / 2 };
    this.#view.zoomBy(distance(after) / distance(before), { ...middle, animated: false });
  }

  #onPointerUp(event) {
    this.#pressedPointers.delete(event.pointerId);
    this.#canvas.classList.remove("dragging");
  }

  #onClick(event) {
    const position = this.#positionIn(event);
    const isOtherButton = event.button !== 0; // only the main button's movements are tracked
    if (this.#hasDragged || (isOtherButton && this.#isFarFromPress(position))) return;
    const inNewTab = event.ctrlKey || event.metaKey || event.button === 1;
    this.#handlers.onClick({ ...position, pointerType: this.#pointerType }, inNewTab);
  }

  #onWheel(event) {
    event.preventDefault();
    const isLines = event.deltaMode === WheelEvent.DOM_DELTA_LINE;
    const pixels = event.deltaY * (isLines ? MapInput.WHEEL_LINE : 1);
    const limited = Math.min(Math.max(pixels, -MapInput.MAX_WHEEL), MapInput.MAX_WHEEL);
    const speed = event.ctrlKey ? 0.01 : 0.002; // a pinch on a touchpad has small steps
    this.#view.zoomBy(Math.exp(-limited * speed), { ...this.#positionIn(event), animated: false });
  }

  #onKeyDown(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const view = this.#view;
    const reach = Math.min(view.width, view.height) / 5;
    const go = event.shiftKey ? (x, y) => view.panBy(x * reach, y * reach) : this.#handlers.onStep;
    const actions = {
      ArrowLeft: () => go(-1, 0),
      ArrowRight: () => go(1, 0),
      ArrowUp: () => go(0, -1),
      ArrowDown: () => go(0, 1),
      Enter: this.#handlers.onEnter,
      "+": () => view.zoomBy(MapInput.ZOOM_STEP),
      "=": () => view.zoomBy(MapInput.ZOOM_STEP),
      "-": () => view.zoomBy(1 / MapInput.ZOOM_STEP),
      0: () => view.showAll(),
      Escape: this.#handlers.onEscape,
    };
    const act = actions[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }
}
