// The card that describes a point of a map.
"use strict";

/** The card that shows a passage's title, its text and its cluster, next to its point. */
class PointCard {
  static EDGE = 8; // the minimum distance from the edge of the map, in CSS pixels

  #element;
  #points;
  #view;
  #host;
  #point = -1; // the point that is described; -1 while the card is hidden
  #descriptions = new Map(); // promises of what the host says about passages, by chunk id

  /**
   * @param {HTMLElement} element The card, as the macro `passage_map` makes it.
   * @param {MapPoints} points
   * @param {MapView} view
   * @param {MapHost} host
   */
  constructor(element, points, view, host) {
    this.#element = element;
    this.#points = points;
    this.#view = view;
    this.#host = host;
    element.querySelector("button").addEventListener("click", () => {
      host.open(points.chunkIds[this.#point], false);
    });
  }

  hide() {
    this.#point = -1;
    this.#element.hidden = true;
  }

  /**
   * Show a point's card once the host has described its passage.
   *
   * @param {number} point
   * @param {number} distance Between the card and the centre of the point, in CSS pixels.
   * @param {boolean} pinned Whether the card has a button that opens the passage.
   */
  async show(point, distance, { pinned = false } = {}) {
    this.#point = point;
    const { title, text } = await this.#describe(this.#points.chunkIds[point]);
    if (this.#point !== point) return; // the card was hidden or shows another point by now
    const cluster = this.#points.clusters[this.#points.clusterOf[point]];
    const fill = (selector, content) => {
      const part = this.#element.querySelector(selector);
      part.textContent = content;
      part.hidden = !content;
    };
    fill("strong", title);
    fill("p", text);
    fill("small", cluster?.name ?? "");
    this.#element.querySelector("button").hidden = !pinned;
    this.#element.classList.toggle("pinned", pinned);
    this.#element.hidden = false;
    this.#place(point, distance);
  }

  /** Return the host's description of a passage, or its error, which is not stored. */
  async #describe(chunkId) {
    if (!this.#descriptions.has(chunkId)) {
      this.#descriptions.set(chunkId, this.#host.describe(chunkId));
    }
    try {
      return await this.#descriptions.get(chunkId);
    } catch (error) {
      this.#descriptions.delete(chunkId);
      return { title: "", text: error.message };
    }
  }

  /**
   * Put the card to the right or left of its point, wherever there is room; otherwise at the top or
   * bottom of the map, whichever is farther from the point.
   */
  #place(point, distance) {
    const { width: mapWidth, height: mapHeight } = this.#view;
    const { x, y } = this.#view.project(this.#points.x[point], this.#points.y[point]);
    const { offsetWidth: width, offsetHeight: height, style } = this.#element;
    const edge = PointCard.EDGE;
    const clamp = (value, high) => Math.max(Math.min(value, high - edge), edge);
    const sides = [x + distance, x - distance - width];
    const side = sides.find((left) => left >= edge && left + width <= mapWidth - edge);
    const farther = y < mapHeight / 2 ? mapHeight - height - edge : edge;
    style.left = `${side ?? clamp(x - width / 2, mapWidth - width)}px`;
    style.top = `${side === undefined ? farther : clamp(y - height / 2, mapHeight - height)}px`;
  }
}
