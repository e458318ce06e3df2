// The part of a map that is visible: people drag and zoom it.
"use strict";

/**
 * The visible part of a map: its centre in units of the data, and the zoom. At zoom 1, everything is
 * visible. All other positions and distances are in CSS pixels.
 */
class MapView {
  static MAX_ZOOM = 80;
  static MARGIN = 44; // between the outermost points and the edge, for names
  static ANIMATION_MS = 220;

  static #reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

  x; // the centre
  y;
  zoom;
  width = 0; // of the canvas
  height = 0;
  #bounds;
  #onMove;
  #animation = null; // the positions `from` and `to`, and the time of the `start`; null if none runs

  /**
   * Show everything.
   *
   * @param {{left: number, top: number, right: number, bottom: number, width: number, height: number}}
   *     bounds The bounds of the data.
   * @param {() => void} onMove Called when the view has moved or starts to move. It requests a frame.
   */
  constructor(bounds, onMove) {
    this.#bounds = bounds;
    this.#onMove = onMove;
    Object.assign(this, this.#wholePosition());
  }

  /** The centre and the zoom. Setting it ends an animation. */
  get position() {
    return { x: this.x, y: this.y, zoom: this.zoom };
  }

  set position(position) {
    this.#animation = null;
    this.#moveTo(position);
  }

  /** The number of CSS pixels in a unit of the data. */
  get scale() {
    return this.#scaleAt(this.zoom);
  }

  /** Convert coordinates of the data to a position on the canvas. */
  project(x, y) {
    const { scale } = this;
    return { x: (x - this.x) * scale + this.width / 2, y: (y - this.y) * scale + this.height / 2 };
  }

  /** Convert a position on the canvas to coordinates of the data. */
  unproject(x, y) {
    const { scale } = this;
    return { x: this.x + (x - this.width / 2) / scale, y: this.y + (y - this.height / 2) / scale };
  }

  /** Zoom in or out around a position on the canvas; around its centre by default. */
  zoomBy(factor, { x = this.width / 2, y = this.height / 2, animated = true } = {}) {
    const from = this.#findStart(animated);
    const zoom = Math.min(Math.max(from.zoom * factor, 1), MapView.MAX_ZOOM);
    const shift = 1 / this.#scaleAt(from.zoom) - 1 / this.#scaleAt(zoom);
    const [dx, dy] = [x - this.width / 2, y - this.height / 2];
    this.#go({ x: from.x + dx * shift, y: from.y + dy * shift, zoom }, animated);
  }

  /** Move by CSS pixels. */
  panBy(dx, dy, animated = true) {
    const from = this.#findStart(animated);
    const scale = this.#scaleAt(from.zoom);
    this.#go({ ...from, x: from.x + dx / scale, y: from.y + dy / scale }, animated);
  }

  /** Show everything. */
  showAll() {
    this.#go(this.#wholePosition(), true);
  }

  /** Move to where a running animation is by now. To be called before each frame is drawn. */
  stepAnimation() {
    if (!this.#animation) return;
    const { from, to, start } = this.#animation;
    const time = Math.min((performance.now() - start) / MapView.ANIMATION_MS, 1);
    if (time === 1) {
      this.position = to;
      return;
    }
    const eased = 1 - (1 - time) ** 3;
    const zoom = from.zoom * (to.zoom / from.zoom) ** eased;
    // The centre moves in proportion to the visible width. So the position that the map zooms around
    // stays where it is on the canvas.
    const [widthBefore, width, widthAfter] = [1 / from.zoom, 1 / zoom, 1 / to.zoom];
    const progress = widthBefore === widthAfter
      ? eased
      : (width - widthBefore) / (widthAfter - widthBefore);
    const centre = (axis) => from[axis] + (to[axis] - from[axis]) * progress;
    this.#moveTo({ x: centre("x"), y: centre("y"), zoom });
  }

  #wholePosition() {
    const { left, top, width, height } = this.#bounds;
    return { x: left + width / 2, y: top + height / 2, zoom: 1 };
  }

  #scaleAt(zoom) {
    const room = (length) => Math.max(length - 2 * MapView.MARGIN, 1);
    const { width, height } = this.#bounds;
    return Math.min(room(this.width) / width, room(this.height) / height) * zoom;
  }

  /**
   * Return the position that a movement starts from. An animated step starts from the target of a
   * running animation, so that repeated steps add up. A pointer starts from what is visible, so that
   * the map does not jump.
   */
  #findStart(animated) {
    return animated && this.#animation ? this.#animation.to : this.position;
  }

  #go(position, animated) {
    if (!animated || MapView.#reducedMotion.matches) {
      this.position = position;
    } else {
      this.#animation = { from: this.position, to: position, start: performance.now() };
      this.#onMove();
    }
  }

  /** Move to a position, whose centre is put within the bounds. */
  #moveTo({ x, y, zoom }) {
    const { left, top, right, bottom } = this.#bounds;
    const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
    this.x = clamp(x, left, right);
    this.y = clamp(y, top, bottom);
    this.zoom = zoom;
    this.#onMove();
  }
}
