// The names of clusters on a map, placed where there is room.
"use strict";

/** The names of clusters. All sizes and distances are in CSS pixels. */
class ClusterNames {
  static MAX_LINE = 20; // a longer name, in characters, is wrapped
  static GAP = 10; // the minimum distance between two names
  static ROOM = 5; // the name is in the middle of a cluster with this many times the name's area
  static MAX_OUTSIDE = MapView.MARGIN - 4; // how far names may leave the bounds of the data
  static NARROW_MAP = 500; // names are smaller on a map that is narrower
  static SHIFTS = [0, -0.25, 0.25, -0.5, 0.5, -0.75, 0.75, -1, 1]; // to the side on it, in their widths

  #points;
  #view;
  #names = []; // wrapped and measured, largest cluster first
  #placement = { scale: 0, names: [] }; // the names for which there is room, at which scale

  /**
   * Store what is named. No name is visible until they are measured.
   *
   * @param {MapPoints} points
   * @param {MapView} view
   */
  constructor(points, view) {
    this.#points = points;
    this.#view = view;
  }

  /** Wrap and measure the names, for the canvas's font and the width of the map. */
  measure(context, family) {
    const { clusters } = this.#points;
    const largest = Math.max(...clusters.map(({ size }) => size), 1);
    const smallest = this.#view.width < ClusterNames.NARROW_MAP ? 11 : 12;
    const extents = this.#measureClusters();
    this.#names = clusters.map(({ name, size, x, y }, cluster) => {
      const pixels = Math.round(smallest + 4 * Math.sqrt(size / largest));
      const font = `600 ${pixels}px ${family}`;
      context.font = font;
      const lines = ClusterNames.#wrap(name);
      const width = Math.max(...lines.map((line) => context.measureText(line).width));
      const lineHeight = pixels * 1.2;
      const box = { font, lines, width, lineHeight, height: lineHeight * lines.length };
      return { ...box, cluster, size, x, y, ...extents[cluster] };
    });
    this.#names.sort((a, b) => b.size - a.size);
    this.#placement = { scale: 0, names: [] };
  }

  /**
   * Return the visible names, largest cluster first, each with its `cluster`, `font`, `lines` and
   * `lineHeight`, and its box: `left` and `top` on the canvas, `width` and `height`.
   *
   * @param {number} distance The minimum distance of names outside of small clusters from their points.
   */
  listVisible(distance) {
    const { scale, x, y, width: mapWidth, height: mapHeight } = this.#view;
    const [dx, dy] = [mapWidth / 2 - x * scale, mapHeight / 2 - y * scale];
    return this.#place(distance)
      .map((name) => ({ ...name, left: name.left + dx, top: name.top + dy }))
      .filter(({ left, top, width, height }) =>
        left + width > 0 && top + height > 0 && left < mapWidth && top < mapHeight);
  }

  /** Return the top, the bottom and the area of each cluster, in units of the data. */
  #measureClusters() {
    const { clusters, clusterOf, x, y } = this.#points;
    const extents = clusters.map(({ x, y }) => ({ left: x, right: x, top: y, bottom: y }));
    clusterOf.forEach((cluster, point) => {
      const extent = extents[cluster];
      if (!extent) return;
      extent.left = Math.min(extent.left, x[point]);
      extent.right = Math.max(extent.right, x[point]);
      extent.top = Math.min(extent.top, y[point]);
      extent.bottom = Math.max(extent.bottom, y[point]);
    });
    return extents.map(({ left, right, top, bottom }) => ({
      clusterTop: top,
      clusterBottom: bottom,
      clusterArea: (right - left) * (bottom - top),
    }));
  }

  /**
   * Place as many names as fit at the current scale without overlapping, largest cluster first. A name
   * is in the middle of its cluster; but if the cluster is small, above, below or in the middle,
   * wherever it covers the fewest points. On a narrow map it may also be to the side, and is left
   * out where it would cover a point. Panning does not change the placement.
   *
   * @returns The names with `left` and `top`, from the origin of the data.
   */
  #place(distance) {
    const { scale } = this.#view;
    if (this.#placement.scale === scale) return this.#placement.names;
    const isNarrow = this.#view.width < ClusterNames.NARROW_MAP;
    const placed = [];
    for (const name of this.#names) {
      const isSmall = isNarrow ||
        name.clusterArea * scale ** 2 < name.width * name.height * ClusterNames.ROOM;
      const middle = name.y * scale - name.height / 2;
      const above = name.clusterTop * scale - distance - name.height;
      const below = name.clusterBottom * scale + distance;
      const boxes = (isNarrow ? ClusterNames.SHIFTS : [0])
        .map((shift) => name.x * scale + (shift - 0.5) * name.width)
        .flatMap((left) => (isSmall ? [middle, above, below] : [middle]).map((top) => ({ left, top })))
        .map((position) => this.#keepInside({ ...name, ...position }))
        .filter((box) => !placed.some((other) => ClusterNames.#overlap(box, other)))
        .map((box) => ({ box, covered: isSmall ? this.#countCovered(box, isNarrow ? distance / 2 : 0) : 0 }))
        .filter(({ covered }) => !isNarrow || covered === 0);
      boxes.sort((a, b) => a.covered - b.covered);
      if (boxes.length) placed.push(boxes[0].box);
    }
    this.#placement = { scale, names: placed };
    return placed;
  }

  /** Move a box so that it is at most MAX_OUTSIDE beyond the bounds of the data. */
  #keepInside(box) {
    const { scale } = this.#view;
    const { left, top, right, bottom } = this.#points.bounds;
    const outside = ClusterNames.MAX_OUTSIDE;
    const clamp = (start, size, low, high) =>
      Math.max(Math.min(start, high * scale + outside - size), low * scale - outside);
    return {
      ...box,
      left: clamp(box.left, box.width, left, right),
      top: clamp(box.top, box.height, top, bottom),
    };
  }

  /**
   * Count the points under a box, or less than `margin` from it. Its `left` and `top` are from the
   * origin of the data.
   */
  #countCovered({ left, top, width, height }, margin) {
    const { scale } = this.#view;
    const [halfWidth, halfHeight] = [width / 2 + margin, height / 2 + margin];
    const [x, y] = [left + width / 2, top + height / 2];
    const isCovered = (point) =>
      Math.abs(this.#points.x[point] * scale - x) < halfWidth &&
      Math.abs(this.#points.y[point] * scale - y) < halfHeight;
    const around = this.#points.around(x / scale, y / scale, halfWidth / scale, halfHeight / scale);
    return around.filter(isCovered).length;
  }

  /** Return whether the boxes of two names overlap, or are too close to each other. */
  static #overlap(a, b) {
    const gap = ClusterNames.GAP;
    return a.left < b.left + b.width + gap && b.left < a.left + a.width + gap &&
      a.top < b.top + b.height + gap && b.top < a.top + a.height + gap;
  }

  /** Wrap a long name to two lines of about the same length. A line that is too long ends with `…`. */
  static #wrap(name) {
    if (name.length <= ClusterNames.MAX_LINE) return [name];
    const words = name.split(/\s+/);
    const splits = words.map((_, index) => [
      words.slice(0, index).join(" "),
      words.slice(index).join(" "),
    ]);
    const longest = (lines) => Math.max(...lines.map((line) => line.length));
    const lines = splits.reduce((best, split) => (longest(split) < longest(best) ? split : best));
    const limit = ClusterNames.MAX_LINE * 1.3;
    return lines
      .filter(Boolean)
      .map((line) => (line.length > limit ? `${line.slice(0, limit - 1)}…` : line));
  }
}
