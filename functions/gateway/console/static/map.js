// A map of passages on a canvas. People drag and zoom it, and open its points and clusters, whose
// names are shown where there is room. The map sends no requests: the page around it does, so the
// console and an app in a chat can both use it.
"use strict";

/**
 * @typedef {object} MapData The result of the tool `get_map`.
 * @property {{cluster_id: string, name: string, size: number, x: number, y: number}[]} clusters
 * @property {string[]} chunk_ids The passages. Each is a point on the map.
 * @property {number[]} x The coordinates of the points. Both axes have the same scale.
 * @property {number[]} y
 * @property {number[]} cluster The index of each point's cluster in `clusters`; -1 for none.
 *
 * @typedef {object} MapHost What the page around the map does on its behalf.
 * @property {(chunkId: string) => Promise<{title: string, text: string}>} describe
 * @property {(chunkId: string, inNewTab: boolean) => void} open
 * @property {(clusterId: string, inNewTab: boolean) => void} openCluster
 */

class PassageMap {
  static COLOURS = 10; // --map-0 to --map-9 in the style sheet
  static NO_CLUSTER = PassageMap.COLOURS; // the palette's index for points without a cluster
  static DIM = PassageMap.COLOURS + 1; // the palette's index for points in the background
  static MAX_ZOOM = 80;
  static ZOOM_STEP = 1.6; // of the buttons and keys
  static MARGIN = 44; // CSS pixels between the outermost points and the edge, for names
  static HIT_DISTANCE = { mouse: 6, touch: 20 }; // CSS pixels beyond a dot's edge that still hit it
  static GRID_CELLS = 128; // of the grid that finds points, along the longer side of the map
  static REST_MS = 120; // how long a pointer must rest on a point before the card appears
  static ANIMATION_MS = 220;
  static NAME_LENGTH = 20; // a longer name, in characters, is wrapped
  static NAME_GAP = 10; // the minimum distance between two names, in CSS pixels
  static NAME_ROOM = 5; // the name is in the middle of a cluster with this many times the name's area
  static MAX_BASE_RADIUS = 8; // the base radius is that of points without a search, in CSS pixels
  static MIN_BASE_RADIUS = 1.6;
  static MAX_UNZOOMED_RADIUS = 6; // the maximum base radius at zoom 1
  static RADIUS_PER_SPACING = 0.13; // the base radius divided by the mean distance of points
  static RADIUS_GROWTH = 0.4; // the exponent by which the radius grows with the zoom
  static RANK_LIMITS = [10, 30, Infinity]; // the best 10 hits are the largest, then the best 30
  static TOP_LEVEL = 3; // level 0 is the background; the levels above it stand out
  static LEVEL_SCALES = [1, 1, 1.4, 2]; // the factor of the base radius at each level
  static MIN_LEVEL_RADII = [0, 2.5, 3.5, 5]; // in a search, the smallest radius at each level
  static MIN_RIM_RADIUS = 2.5; // smaller points have no rim; in CSS pixels
  static DRAG_DISTANCE = { mouse: 5, touch: 10 }; // CSS pixels from which a press drags, not clicks

  static #darkScheme = matchMedia("(prefers-color-scheme: dark)");
  static #forcedColours = matchMedia("(forced-colors: active)");
  static #reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

  #canvas;
  #context;
  #card;
  #data;
  #host;
  #bounds; // of points and clusters, in units of the data
  #clusterColours = []; // the index of each cluster's colour in the palette
  #pointColours; // the index of each point's colour in the palette
  #pointsByColour; // all points, sorted by colour, which draws faster
  #grid;
  #width = 0; // of the canvas, in CSS pixels
  #height = 0;
  #ratio = 1; // device pixels in a CSS pixel
  #view; // the centre in units of the data, and the zoom
  #animation = null; // the views `from` and `to`, and the time of the `start`; null if none runs
  #frame = 0; // the id of the requested frame; 0 if none is requested
  #theme = null; // colours of the style sheet; null until they are read
  #names = []; // the names of clusters, wrapped and measured
  #placement = { scale: 0, names: [] }; // the names for which there is room, at which scale
  #raster = null;
  #levels = null; // the level of each point after `light`; null if no points are lit
  #litCount = 0;
  #litClusters = new Set(); // indexes of the clusters of lit points
  #highlighted = -1; // the index of a cluster; -1 for none
  #hovered = { point: -1, cluster: -1 }; // what is under the pointer
  #described = -1; // the point on the card; -1 while it is hidden
  #descriptions = new Map(); // promises of what the host says about points, by chunk id
  #restTimer = 0;
  #pressedPointers = new Map(); // their positions, by pointer id
  #pressedAt = { x: 0, y: 0 }; // where the first of them was pressed
  #hasDragged = false; // whether a pointer has dragged or pinched since then
  #pointerType = "mouse";

  /**
   * Show the map in an element, for as long as the page exists: listeners are never removed.
   *
   * @param {HTMLElement} element As the macro `passage_map` makes it.
   * @param {MapData} data
   * @param {MapHost} host
   */
  constructor(element, data, host) {
    this.#canvas = element.querySelector("canvas");
    this.#context = this.#canvas.getContext("2d", { alpha: false });
    this.#card = element.querySelector(".map-card");
    this.#data = data;
    this.#host = host;
    this.#measure();
    this.#makeGrid();
    this.#chooseColours();
    this.#listen(element);
    element.map = this; // for the rest of the page's scripts
    element.hidden = false;
  }

  /** The centre in units of the data, and the zoom; at zoom 1, everything is visible. */
  get view() {
    return { ...this.#view };
  }

  set view(view) {
    this.#animation = null;
    this.#show(view);
  }

  /** The number of lit points. */
  get litCount() {
    return this.#litCount;
  }

  /** The visible names of clusters, largest cluster first. */
  get visibleNames() {
    return this.#namesInSight().map(({ lines }) => lines.join(" "));
  }

  /** Return the colour of a cluster as a CSS value; null if it is not on the map. */
  colourOf(clusterId) {
    const cluster = this.#indexOf(clusterId);
    return cluster < 0 ? null : `var(--map-${this.#clusterColours[cluster]})`;
  }

  /** Return the ids of a cluster's passages; none if the cluster is not on the map. */
  passagesOf(clusterId) {
    const cluster = this.#indexOf(clusterId);
    if (cluster < 0) return []; // -1 would select the points without a cluster
    return this.#data.chunk_ids.filter((_, point) => this.#data.cluster[point] === cluster);
  }

  /**
   * Light points: draw them in colour, and dim all others. The next call replaces them; null lights
   * none, so nothing is dimmed. If the passages are ranked, best first, the best are drawn largest.
   */
  light(chunkIds, { ranked = false } = {}) {
    this.#litCount = 0;
    this.#levels = null;
    if (chunkIds) {
      const tier = (rank) => (ranked ? PassageMap.RANK_LIMITS.findIndex((limit) => rank < limit) : 1);
      const levels = new Map(chunkIds.map((id, rank) => [id, PassageMap.TOP_LEVEL - tier(rank)]));
      this.#levels = Uint8Array.from(this.#data.chunk_ids, (id) => levels.get(id) ?? 0);
      this.#litCount = this.#levels.reduce((count, value) => count + (value > 0), 0);
    }
    this.#litClusters = new Set(this.#data.cluster.filter((_, point) => this.#levels?.[point]));
    this.#draw();
  }

  /**
   * Highlight a cluster: its points stand out instead of those that are lit. The next call replaces
   * it, and null clears it. A cluster under the pointer takes precedence.
   */
  highlight(clusterId) {
    this.#highlighted = this.#indexOf(clusterId);
    this.#draw();
  }

  /** Read the colours of the style sheet again. */
  refreshColours() {
    this.#theme = null;
    this.#draw();
  }

  /** Zoom in or out around a position on the canvas, in CSS pixels; around its centre by default. */
  zoomBy(factor, { x = this.#width / 2, y = this.#height / 2, animated = true } = {}) {
    const from = this.#findStart(animated);
    const zoom = Math.min(Math.max(from.zoom * factor, 1), PassageMap.MAX_ZOOM);
    const shift = 1 / this.#scale(from.zoom) - 1 / this.#scale(zoom);
    const [dx, dy] = [x - this.#width / 2, y - this.#height / 2];
    this.#go({ x: from.x + dx * shift, y: from.y + dy * shift, zoom }, animated);
  }

  /** Move the view by CSS pixels. */
  panBy(dx, dy, animated = true) {
    const from = this.#findStart(animated);
    const scale = this.#scale(from.zoom);
    this.#go({ ...from, x: from.x + dx / scale, y: from.y + dy / scale }, animated);
  }

  /** Show everything. */
  showAll() {
    this.#go(this.#wholeView(), true);
  }

  /** Return a passage's position in the window, in CSS pixels; null if it is not on the map. */
  positionOf(chunkId) {
    const point = this.#data.chunk_ids.indexOf(chunkId);
    if (point < 0) return null;
    const box = this.#canvas.getBoundingClientRect();
    const { x, y } = this.#project(this.#data.x[point], this.#data.y[point]);
    return { x: box.x + x, y: box.y + y };
  }

  // ---- data ----

  #indexOf(clusterId) {
    return this.#data.clusters.findIndex((cluster) => cluster.cluster_id === clusterId);
  }

  #measure() {
    const range = (axis) => {
      let [low, high] = [Infinity, -Infinity];
      const include = (value) => {
        low = Math.min(low, value);
        high = Math.max(high, value);
      };
      this.#data[axis].forEach(include);
      this.#data.clusters.forEach((cluster) => include(cluster[axis]));
      return low > high ? [0, 1] : [low, Math.max(high, low + 1)];
    };
    const [[left, right], [top, bottom]] = [range("x"), range("y")];
    this.#bounds = { left, top, right, bottom, width: right - left, height: bottom - top };
    this.#view = this.#wholeView();
  }

  /** Sort the points by square cells: `points[starts[cell]]` is the first point of a cell. */
  #makeGrid() {
    const { x, y } = this.#data;
    const { left, top, width, height } = this.#bounds;
    const size = Math.max(width, height) / PassageMap.GRID_CELLS;
    const columns = Math.floor(width / size) + 1;
    const rows = Math.floor(height / size) + 1;
    const cellOf = (point) =>
      Math.floor((y[point] - top) / size) * columns + Math.floor((x[point] - left) / size);
    const starts = new Uint32Array(columns * rows + 1);
    x.forEach((_, point) => starts[cellOf(point) + 1]++);
    for (let cell = 1; cell < starts.length; cell++) starts[cell] += starts[cell - 1];
    const free = starts.slice();
    const points = new Uint32Array(x.length);
    x.forEach((_, point) => (points[free[cellOf(point)]++] = point));
    this.#grid = { size, columns, rows, starts, points };
  }

  /**
   * Give each cluster, largest first, the colour whose nearest other use is farthest away. So the ten
   * largest clusters have ten different colours.
   */
  #chooseColours() {
    const { clusters, cluster: clusterOf } = this.#data;
    const bySize = [...clusters.keys()].sort((a, b) => clusters[b].size - clusters[a].size);
    bySize.forEach((index, rank) => {
      const distances = new Array(PassageMap.COLOURS).fill(Infinity);
      for (const other of bySize.slice(0, rank)) {
        const colour = this.#clusterColours[other];
        const [dx, dy] = [clusters[other].x - clusters[index].x, clusters[other].y - clusters[index].y];
        distances[colour] = Math.min(distances[colour], Math.hypot(dx, dy));
      }
      this.#clusterColours[index] = distances.indexOf(Math.max(...distances));
    });
    const colours = clusterOf.map((index) => this.#clusterColours[index] ?? PassageMap.NO_CLUSTER);
    this.#pointColours = Uint8Array.from(colours);
    this.#pointsByColour = Uint32Array.from(colours.keys()).sort((a, b) => colours[a] - colours[b]);
  }

  // ---- view ----

  #wholeView() {
    const { left, top, width, height } = this.#bounds;
    return { x: left + width / 2, y: top + height / 2, zoom: 1 };
  }

  /** Return how many CSS pixels a unit of the data has. */
  #scale(zoom = this.#view.zoom) {
    const room = (length) => Math.max(length - 2 * PassageMap.MARGIN, 1);
    const { width, height } = this.#bounds;
    return Math.min(room(this.#width) / width, room(this.#height) / height) * zoom;
  }

  /** Convert coordinates of the data to a position on the canvas, in CSS pixels. */
  #project(x, y) {
    const scale = this.#scale();
    return {
      x: (x - this.#view.x) * scale + this.#width / 2,
      y: (y - this.#view.y) * scale + this.#height / 2,
    };
  }

  /**
   * Return the view that a movement starts from. An animated step starts from the target of a running
   * animation, so that repeated steps add up. A pointer starts from what is visible, so that the map
   * does not jump.
   */
  #findStart(animated) {
    return animated && this.#animation ? this.#animation.to : this.#view;
  }

  #go(view, animated) {
    if (!animated || PassageMap.#reducedMotion.matches) {
      this.view = view;
    } else {
      this.#animation = { from: this.view, to: view, start: performance.now() };
      this.#draw();
    }
  }

  /** Show a view, whose centre is moved within the bounds if needed. Hides the card. */
  #show({ x, y, zoom }) {
    const { left, top, right, bottom } = this.#bounds;
    const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
    this.#view = { x: clamp(x, left, right), y: clamp(y, top, bottom), zoom };
    this.#hideCard();
    this.#draw();
  }

  #stepAnimation() {
    const { from, to, start } = this.#animation;
    const time = Math.min((performance.now() - start) / PassageMap.ANIMATION_MS, 1);
    if (time === 1) {
      this.view = to;
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
    this.#show({ x: centre("x"), y: centre("y"), zoom });
  }

  // ---- drawing ----

  /** Draw in the next frame: once, however often this is called before. */
  #draw() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      if (this.#animation) this.#stepAnimation();
      this.#fitCanvas();
      this.#theme ??= this.#readTheme();
      this.#drawPoints();
      this.#drawNames();
    });
  }

  #fitCanvas() {
    const ratio = devicePixelRatio;
    const [width, height] = [this.#width, this.#height].map((side) => Math.round(side * ratio));
    const isSameSize = this.#canvas.width === width && this.#canvas.height === height;
    // The browser's own zoom can change the ratio without changing the number of device pixels.
    if (this.#raster && isSameSize && this.#ratio === ratio) return;
    [this.#canvas.width, this.#canvas.height, this.#ratio] = [width, height, ratio];
    this.#theme = null; // the size of names depends on the width
    this.#raster = new DotRaster(width, height, this.#rasterMargin);
  }

  /** The margin of the raster, in device pixels: large enough for a stamp that is nearly invisible. */
  get #rasterMargin() {
    const radius = PassageMap.MAX_BASE_RADIUS * Math.max(...PassageMap.LEVEL_SCALES);
    return 2 * Math.ceil((radius + 1) * this.#ratio); // the rim is one CSS pixel
  }

  /** Read the colours from the style sheet, for the light, dark or forced scheme, and the font. */
  #readTheme() {
    const style = getComputedStyle(this.#canvas);
    const read = (name) => style.getPropertyValue(`--map-${name}`).trim();
    this.#measureNames(style.fontFamily);
    const [paper, ink, accent] = ["paper", "ink", "accent"].map(read);
    const ofClusters = Array.from({ length: PassageMap.COLOURS }, (_, colour) => read(colour));
    const palette = [...ofClusters, read("none"), read("dim")].map(DotRaster.parseColour);
    const inkChannels = DotRaster.parseColour(ink);
    // Names have the colour of their cluster, mixed half and half with ink for enough contrast.
    const nameColours = palette.map((colour) =>
      `rgb(${colour.map((channel, index) => (channel + inkChannels[index]) / 2).join(" ")})`);
    const background = DotRaster.parseColour(paper);
    return { palette, background, paper, ink, accent, nameColours };
  }

  /**
   * The radius of points that are all alike, in CSS pixels. It shrinks with the number of points, and
   * grows with the zoom.
   */
  get #baseRadius() {
    const spacing = Math.sqrt((this.#width * this.#height) / Math.max(this.#pointsByColour.length, 1));
    const unzoomed = Math.min(
      Math.max(spacing * PassageMap.RADIUS_PER_SPACING, PassageMap.MIN_BASE_RADIUS),
      PassageMap.MAX_UNZOOMED_RADIUS,
    );
    const zoomed = unzoomed * this.#view.zoom ** PassageMap.RADIUS_GROWTH;
    return Math.min(zoomed, PassageMap.MAX_BASE_RADIUS);
  }

  /** The index of the cluster under the pointer, or else of the highlighted one; -1 for none. */
  get #activeCluster() {
    return this.#hovered.cluster < 0 ? this.#highlighted : this.#hovered.cluster;
  }

  /**
   * Return whether a point stands out: it belongs to the active cluster; or without one, it is lit, or
   * no points are lit.
   */
  #standsOut(point) {
    if (this.#activeCluster >= 0) return this.#data.cluster[point] === this.#activeCluster;
    return this.#levels === null || this.#levels[point] > 0;
  }

  #drawPoints() {
    const sortedLevels = Uint8Array.from(this.#pointsByColour, (point) => this.#levelOf(point));
    this.#raster.clear(this.#theme.background);
    for (let level = 0; level <= PassageMap.TOP_LEVEL; level++) {
      const colourOf = (point) => (level ? this.#pointColours[point] : PassageMap.DIM);
      this.#drawDots(sortedLevels, level, colourOf);
    }
    this.#raster.copyTo(this.#context);
    if (this.#hovered.point >= 0) this.#drawRing(this.#hovered.point);
  }

  #levelOf(point) {
    if (this.#activeCluster >= 0 || this.#levels === null) return this.#standsOut(point) ? 1 : 0;
    return this.#levels[point];
  }

  /** Return the radius of the points of a level, in CSS pixels. */
  #radiusOf(level) {
    const isSearch = this.#activeCluster < 0 && this.#levels !== null;
    const smallest = isSearch ? PassageMap.MIN_LEVEL_RADII[level] : 0;
    return Math.max(this.#baseRadius * PassageMap.LEVEL_SCALES[level], smallest);
  }

  /**
   * Draw the visible points of a level.
   *
   * @param {Uint8Array} sortedLevels The levels of the points in `#pointsByColour`.
   * @param {number} level
   * @param {(point: number) => number} colourOf Returns the index of a colour in the palette.
   */
  #drawDots(sortedLevels, level, colourOf) {
    if (!sortedLevels.includes(level)) return;
    const radius = this.#radiusOf(level);
    const { x, y } = this.#data;
    const [width, height] = [this.#canvas.width, this.#canvas.height];
    const scale = this.#scale() * this.#ratio;
    const offsetX = width / 2 - this.#view.x * scale;
    const offsetY = height / 2 - this.#view.y * scale;
    const rim = radius < PassageMap.MIN_RIM_RADIUS ? 0 : this.#ratio;
    const { palette, background } = this.#theme;
    const stamps = this.#raster.makeStamps(radius * this.#ratio, rim, palette, background);
    const reach = Math.ceil(radius * this.#ratio + rim);
    for (let rank = 0; rank < sortedLevels.length; rank++) {
      if (sortedLevels[rank] !== level) continue;
      const point = this.#pointsByColour[rank];
      const left = Math.round(x[point] * scale + offsetX);
      const top = Math.round(y[point] * scale + offsetY);
      if (left > -reach && top > -reach && left < width + reach && top < height + reach) {
        this.#raster.stamp(stamps[colourOf(point)], left, top);
      }
    }
  }

  #drawRing(point) {
    const radius = this.#radiusOf(this.#levelOf(point)) + 3;
    const { x, y } = this.#project(this.#data.x[point], this.#data.y[point]);
    this.#withCssPixels((context) => {
      context.strokeStyle = this.#theme.ink;
      context.lineWidth = 2;
      context.beginPath();
      context.arc(x, y, radius, 0, 2 * Math.PI);
      context.stroke();
    });
  }

  #withCssPixels(draw) {
    this.#context.save();
    this.#context.scale(this.#ratio, this.#ratio);
    draw(this.#context);
    this.#context.restore();
  }

  // ---- names ----

  /** Wrap and measure the names of clusters, those of large clusters first. */
  #measureNames(family) {
    const { clusters } = this.#data;
    const largest = Math.max(...clusters.map(({ size }) => size), 1);
    const smallest = this.#width < 500 ? 11 : 12; // CSS pixels
    const extents = this.#measureClusters();
    this.#names = clusters.map(({ name, size, x, y }, cluster) => {
      const pixels = Math.round(smallest + 4 * Math.sqrt(size / largest));
      const font = `600 ${pixels}px ${family}`;
      this.#context.font = font;
      const lines = wrapName(name);
      const width = Math.max(...lines.map((line) => this.#context.measureText(line).width));
      const lineHeight = pixels * 1.2;
      const box = { font, lines, width, lineHeight, height: lineHeight * lines.length };
      return { ...box, cluster, size, x, y, ...extents[cluster] };
    });
    this.#names.sort((a, b) => b.size - a.size);
    this.#placement = { scale: 0, names: [] };
  }

  /** Return the top, the bottom and the area of each cluster, in units of the data. */
  #measureClusters() {
    const extents = this.#data.clusters.map(({ x, y }) => ({ left: x, right: x, top: y, bottom: y }));
    this.#data.cluster.forEach((cluster, point) => {
      const extent = extents[cluster];
      if (!extent) return;
      const [x, y] = [this.#data.x[point], this.#data.y[point]];
      Object.assign(extent, { left: Math.min(extent.left, x), right: Math.max(extent.right, x) });
      Object.assign(extent, { top: Math.min(extent.top, y), bottom: Math.max(extent.bottom, y) });
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
   * wherever it covers the fewest points. Panning does not change the placement.
   */
  #placeNames() {
    const scale = this.#scale();
    if (this.#placement.scale === scale) return this.#placement.names;
    const { left, top, right, bottom } = this.#bounds;
    const margin = PassageMap.MARGIN - 4; // how far names may leave the bounds, in CSS pixels
    const clamp = (start, size, low, high) =>
      Math.max(Math.min(start, high * scale + margin - size), low * scale - margin);
    const distance = this.#baseRadius + 5;
    const placed = [];
    for (const name of this.#names) {
      const isSmall = name.clusterArea * scale ** 2 < name.width * name.height * PassageMap.NAME_ROOM;
      const tops = [
        name.y * scale - name.height / 2,
        ...(isSmall
          ? [name.clusterTop * scale - distance - name.height, name.clusterBottom * scale + distance]
          : []),
      ];
      const boxes = tops
        .map((start) => ({
          ...name,
          left: clamp(name.x * scale - name.width / 2, name.width, left, right),
          top: clamp(start, name.height, top, bottom),
        }))
        .filter((box) => !placed.some((other) => overlap(box, other)))
        .map((box) => ({ box, covered: isSmall ? this.#countCovered(box, scale) : 0 }));
      boxes.sort((a, b) => a.covered - b.covered);
      if (boxes.length) placed.push(boxes[0].box);
    }
    this.#placement = { scale, names: placed };
    return placed;
  }

  /** Count the points under a box, given in CSS pixels from the origin of the data. */
  #countCovered({ left, top, width, height }, scale) {
    const isCovered = (point) => {
      const [x, y] = [this.#data.x[point] * scale - left, this.#data.y[point] * scale - top];
      return x > 0 && y > 0 && x < width && y < height;
    };
    const half = { x: width / scale / 2, y: height / scale / 2 };
    const around = this.#pointsAround(left / scale + half.x, top / scale + half.y, half.x, half.y);
    return around.filter(isCovered).length;
  }

  /** Return the visible names, with `left` and `top` on the canvas in CSS pixels. */
  #namesInSight() {
    const scale = this.#scale();
    const [dx, dy] = [this.#width / 2 - this.#view.x * scale, this.#height / 2 - this.#view.y * scale];
    return this.#placeNames()
      .map((name) => ({ ...name, left: name.left + dx, top: name.top + dy }))
      .filter(({ left, top, width, height }) =>
        left + width > 0 && top + height > 0 && left < this.#width && top < this.#height);
  }

  #drawNames() {
    const { paper, accent, nameColours } = this.#theme;
    const standsOut = (cluster) => this.#activeCluster < 0
      ? this.#levels === null || this.#litClusters.has(cluster)
      : this.#activeCluster === cluster;
    this.#withCssPixels((context) => {
      Object.assign(context, { textAlign: "center", textBaseline: "middle", lineJoin: "round" });
      for (const name of this.#namesInSight()) {
        context.font = name.font;
        context.globalAlpha = standsOut(name.cluster) ? 1 : 0.4;
        context.strokeStyle = paper;
        context.lineWidth = 5;
        context.fillStyle = name.cluster === this.#hovered.cluster
          ? accent
          : nameColours[this.#clusterColours[name.cluster]];
        name.lines.forEach((line, index) => {
          const x = name.left + name.width / 2;
          const y = name.top + name.lineHeight * (index + 0.5);
          context.strokeText(line, x, y);
          context.fillText(line, x, y);
        });
      }
    });
  }

  // ---- pointing ----

  /** Return what is at a position on the canvas: the cluster whose name is there, otherwise a point. */
  #hit(x, y) {
    const name = this.#namesInSight().find(({ left, top, width, height }) =>
      x >= left && y >= top && x <= left + width && y <= top + height);
    return name ? { cluster: name.cluster, point: -1 } : { cluster: -1, point: this.#nearest(x, y) };
  }

  /**
   * Return the nearest point whose dot is close enough to a position on the canvas; -1 for none. Points
   * that stand out take precedence over nearer ones.
   */
  #nearest(x, y) {
    const scale = this.#scale();
    const extra = PassageMap.HIT_DISTANCE[this.#pointerType];
    const reaches = PassageMap.LEVEL_SCALES.map((_, level) => (this.#radiusOf(level) + extra) / scale);
    const maxReach = Math.max(...reaches);
    const dataX = this.#view.x + (x - this.#width / 2) / scale;
    const dataY = this.#view.y + (y - this.#height / 2) / scale;
    let best = { point: -1, distance: Infinity, standsOut: false };
    for (const point of this.#pointsAround(dataX, dataY, maxReach, maxReach)) {
      const distance = Math.hypot(this.#data.x[point] - dataX, this.#data.y[point] - dataY);
      if (distance > reaches[this.#levelOf(point)]) continue;
      const standsOut = this.#standsOut(point);
      const isBetter = standsOut === best.standsOut ? distance <= best.distance : standsOut;
      if (isBetter) best = { point, distance, standsOut };
    }
    return best.point;
  }

  /** Return the points in all grid cells that a rectangle touches, given in units of the data. */
  #pointsAround(x, y, reachX, reachY) {
    const { size, columns, rows, starts, points } = this.#grid;
    const cell = (value, low, count) =>
      Math.min(Math.max(Math.floor((value - low) / size), 0), count - 1);
    const firstColumn = cell(x - reachX, this.#bounds.left, columns);
    const lastColumn = cell(x + reachX, this.#bounds.left, columns);
    const lastRow = cell(y + reachY, this.#bounds.top, rows);
    const around = [];
    for (let row = cell(y - reachY, this.#bounds.top, rows); row <= lastRow; row++) {
      const start = starts[row * columns + firstColumn];
      // Not push(...): an engine limits how many arguments a call has.
      const inRow = points.subarray(start, starts[row * columns + lastColumn + 1]);
      for (const point of inRow) around.push(point);
    }
    return around;
  }

  #hover(hovered) {
    const isSame = hovered.point === this.#hovered.point && hovered.cluster === this.#hovered.cluster;
    if (isSame) return;
    this.#hideCard();
    this.#hovered = hovered;
    this.#canvas.classList.toggle("pointing", hovered.point >= 0 || hovered.cluster >= 0);
    if (hovered.point >= 0) {
      this.#restTimer = setTimeout(() => this.#describe(hovered.point), PassageMap.REST_MS);
    }
    this.#draw();
  }

  #hideCard() {
    clearTimeout(this.#restTimer);
    this.#hovered = { point: -1, cluster: -1 };
    this.#described = -1;
    this.#card.hidden = true;
    this.#canvas.classList.remove("pointing");
  }

  /** Show the card of a point. After a tap it is pinned: it has a button that opens the passage. */
  async #describe(point, { pinned = false } = {}) {
    this.#described = point;
    const chunkId = this.#data.chunk_ids[point];
    if (!this.#descriptions.has(chunkId)) {
      this.#descriptions.set(chunkId, this.#host.describe(chunkId));
    }
    let description;
    try {
      description = await this.#descriptions.get(chunkId);
    } catch (error) {
      this.#descriptions.delete(chunkId);
      description = { title: "", text: error.message };
    }
    if (this.#described !== point) return; // the card was hidden or shows another point by now
    const cluster = this.#data.clusters[this.#data.cluster[point]];
    const fill = (selector, text) => {
      const part = this.#card.querySelector(selector);
      part.textContent = text;
      part.hidden = !text;
    };
    fill("strong", description.title);
    fill("p", description.text);
    fill("small", cluster?.name ?? "");
    this.#card.querySelector("button").hidden = !pinned;
    this.#card.classList.toggle("pinned", pinned);
    this.#card.hidden = false;
    this.#placeCard(point);
  }

  /**
   * Put the card to the right or left of its point, wherever there is room; otherwise at the top or
   * bottom of the map, whichever is farther from the point.
   */
  #placeCard(point) {
    const { x, y } = this.#project(this.#data.x[point], this.#data.y[point]);
    const { offsetWidth: width, offsetHeight: height, style } = this.#card;
    const gap = this.#baseRadius + 10;
    const edge = 8;
    const clamp = (value, high) => Math.max(Math.min(value, high - edge), edge);
    const sides = [x + gap, x - gap - width];
    const side = sides.find((left) => left >= edge && left + width <= this.#width - edge);
    const half = y < this.#height / 2 ? this.#height - height - edge : edge;
    style.left = `${side ?? clamp(x - width / 2, this.#width - width)}px`;
    style.top = `${side === undefined ? half : clamp(y - height / 2, this.#height - height)}px`;
  }

  // ---- events ----

  #listen(element) {
    const canvas = this.#canvas;
    const on = (type, handle, options) => canvas.addEventListener(type, handle.bind(this), options);
    on("pointerdown", this.#onPointerDown);
    on("pointermove", this.#onPointerMove);
    for (const type of ["pointerup", "pointercancel"]) on(type, this.#onPointerUp);
    on("pointerleave", () => this.#pointerType === "mouse" && this.#hover({ point: -1, cluster: -1 }));
    on("click", this.#onClick);
    on("auxclick", (event) => event.button === 1 && this.#onClick(event));
    on("wheel", this.#onWheel, { passive: false });
    on("keydown", this.#onKeyDown);
    const step = PassageMap.ZOOM_STEP;
    const onPress = (selector, act) => element.querySelector(selector).addEventListener("click", act);
    onPress("[data-zoom-in]", () => this.zoomBy(step));
    onPress("[data-zoom-out]", () => this.zoomBy(1 / step));
    onPress("[data-show-all]", () => this.showAll());
    this.#card.querySelector("button").addEventListener("click", () => {
      this.#host.open(this.#data.chunk_ids[this.#described], false);
    });
    for (const query of [PassageMap.#darkScheme, PassageMap.#forcedColours]) {
      query.addEventListener("change", () => this.refreshColours());
    }
    new ResizeObserver(([{ contentRect }]) => {
      [this.#width, this.#height] = [contentRect.width, contentRect.height];
      this.#hideCard();
      this.#draw();
    }).observe(canvas);
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
      this.#hover(this.#hit(position.x, position.y));
      return;
    }
    const other = [...this.#pressedPointers].find(([id]) => id !== event.pointerId)?.[1];
    this.#pressedPointers.set(event.pointerId, position);
    this.#hasDragged ||= Boolean(other) || this.#isFarFromPress(position);
    if (other) {
      this.#pinch(before, position, other);
    } else if (this.#hasDragged) {
      this.#canvas.classList.add("dragging");
      this.panBy(before.x - position.x, before.y - position.y, false);
    }
  }

  /** Return whether a pointer is too far from where it was pressed for a click. */
  #isFarFromPress({ x, y }) {
    const distance = Math.hypot(x - this.#pressedAt.x, y - this.#pressedAt.y);
    return distance >= PassageMap.DRAG_DISTANCE[this.#pointerType];
  }

  /** Zoom as two fingers spread or close, and pan with the middle between them. One finger moves. */
  #pinch(before, after, other) {
    const distance = (position) => Math.max(Math.hypot(position.x - other.x, position.y - other.y), 1);
    this.panBy((before.x - after.x) / 2, (before.y - after.y) / 2, false);
    const middle = { x: (after.x + other.x) / 2, y: (after.y + other.y) / 2 };
    this.zoomBy(distance(after) / distance(before), { ...middle, animated: false });
  }

  #onPointerUp(event) {
    this.#pressedPointers.delete(event.pointerId);
    this.#canvas.classList.remove("dragging");
  }

  #onClick(event) {
    const { x, y } = this.#positionIn(event);
    const isOtherButton = event.button !== 0; // only the main button's movements are tracked
    if (this.#hasDragged || (isOtherButton && this.#isFarFromPress({ x, y }))) return;
    const { cluster, point } = this.#hit(x, y);
    const inNewTab = event.ctrlKey || event.metaKey || event.button === 1;
    this.#hideCard();
    if (cluster >= 0) {
      this.#host.openCluster(this.#data.clusters[cluster].cluster_id, inNewTab);
    } else if (point >= 0 && this.#pointerType === "touch") {
      this.#hovered = { point, cluster: -1 };
      this.#describe(point, { pinned: true });
    } else if (point >= 0) {
      this.#host.open(this.#data.chunk_ids[point], inNewTab);
    }
    this.#draw();
  }

  #onWheel(event) {
    event.preventDefault();
    const pixels = event.deltaY * (event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1);
    const speed = event.ctrlKey ? 0.01 : 0.002; // a pinch on a touchpad has small steps
    const factor = Math.exp(-Math.min(Math.max(pixels, -200), 200) * speed);
    this.zoomBy(factor, { ...this.#positionIn(event), animated: false });
  }

  #onKeyDown(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = Math.min(this.#width, this.#height) / 5;
    const actions = {
      ArrowLeft: () => this.panBy(-step, 0),
      ArrowRight: () => this.panBy(step, 0),
      ArrowUp: () => this.panBy(0, -step),
      ArrowDown: () => this.panBy(0, step),
      "+": () => this.zoomBy(PassageMap.ZOOM_STEP),
      "=": () => this.zoomBy(PassageMap.ZOOM_STEP),
      "-": () => this.zoomBy(1 / PassageMap.ZOOM_STEP),
      0: () => this.showAll(),
      Escape: () => this.#show(this.#view), // hides the card
    };
    const act = actions[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }
}

/** Return whether the boxes of two names overlap, or are too close to each other. */
function overlap(a, b) {
  const gap = PassageMap.NAME_GAP;
  return a.left < b.left + b.width + gap && b.left < a.left + a.width + gap &&
    a.top < b.top + b.height + gap && b.top < a.top + a.height + gap;
}

/** Wrap a long name to two lines of about the same length. A line that is too long ends with `…`. */
function wrapName(name) {
  if (name.length <= PassageMap.NAME_LENGTH) return [name];
  const words = name.split(/\s+/);
  const splits = words.map((_, index) => [
    words.slice(0, index).join(" "),
    words.slice(index).join(" "),
  ]);
  const longest = (lines) => Math.max(...lines.map((line) => line.length));
  const lines = splits.reduce((best, split) => (longest(split) < longest(best) ? split : best));
  const limit = PassageMap.NAME_LENGTH * 1.3;
  return lines
    .filter(Boolean)
    .map((line) => (line.length > limit ? `${line.slice(0, limit - 1)}…` : line));
}
