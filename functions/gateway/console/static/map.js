// A map of passages on a canvas: points to drag, zoom and open, with the names of their clusters
// where there is room. It sends no request itself: its host does, so that the console and an app in
// a chat share it.
"use strict";

/**
 * @typedef {object} MapData The result of the tool `get_map`.
 * @property {{cluster_id: string, name: string, size: number, x: number, y: number}[]} clusters
 * @property {string[]} chunk_ids
 * @property {number[]} x Coordinates have the same scale on both axes.
 * @property {number[]} y
 * @property {number[]} cluster The position of a point's cluster in `clusters`; -1 for none.
 *
 * @typedef {object} MapHost What the map asks of its page.
 * @property {(chunkId: string) => Promise<{title: string, text: string}>} describe
 * @property {(chunkId: string, inNewTab: boolean) => void} open
 * @property {(clusterId: string, inNewTab: boolean) => void} openCluster
 */

/**
 * A picture that dots are stamped on, pixel by pixel: tens of thousands take milliseconds, while as
 * shapes or pictures of a canvas they take ten times as long.
 */
class DotRaster {
  #image;
  #pixels; // as 0xAABBGGRR, since all browsers run on little-endian machines
  #stride;
  #margin;

  /** A picture of a size in pixels, with a margin outside in which dots are cut off. */
  constructor(width, height, margin) {
    this.#margin = margin;
    this.#stride = width + 2 * margin;
    this.#image = new ImageData(this.#stride, height + 2 * margin);
    this.#pixels = new Uint32Array(this.#image.data.buffer);
  }

  /** Read a CSS colour of any notation as red, green and blue. */
  static parseColour(colour) {
    const context = new OffscreenCanvas(1, 1).getContext("2d");
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data.subarray(0, 3)];
  }

  static #pack([red, green, blue]) {
    return (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;
  }

  clear(colour) {
    this.#pixels.fill(DotRaster.#pack(colour));
  }

  /** Make stamps of one radius, one for each colour, with a rim that parts dots that overlap. */
  makeStamps(radius, rim, colours, rimColour) {
    const half = Math.ceil(radius + rim);
    const cover = (distance, size) => Math.min(Math.max(size + 0.5 - distance, 0), 1);
    const parts = [];
    for (let y = -half; y <= half; y++) {
      for (let x = -half; x <= half; x++) {
        const distance = Math.hypot(x, y);
        const [dot, all] = [cover(distance, radius), cover(distance, radius + rim)];
        if (all > 0) parts.push({ offset: y * this.#stride + x, dot, all });
      }
    }
    const offsets = Int32Array.from(parts, ({ offset }) => offset);
    const kept = Uint32Array.from(parts, ({ all }) => Math.round((1 - all) * 256)); // of 256
    return colours.map((colour) => {
      const added = Uint32Array.from(parts, ({ dot, all }) =>
        DotRaster.#pack(colour.map((channel, index) => channel * dot + rimColour[index] * (all - dot))));
      return { offsets, kept, added };
    });
  }

  /** Stamp at a pixel, which may be outside by up to the margin less the radius of the stamp. */
  stamp({ offsets, kept, added }, x, y) {
    const pixels = this.#pixels;
    const middle = (y + this.#margin) * this.#stride + x + this.#margin;
    for (let part = 0; part < offsets.length; part++) {
      const pixel = middle + offsets[part];
      const share = kept[part];
      if (share === 0) {
        pixels[pixel] = added[part];
      } else {
        const before = pixels[pixel];
        const redBlue = (Math.imul(before & 0xff00ff, share) >>> 8) & 0xff00ff;
        const green = (Math.imul(before & 0xff00, share) >>> 8) & 0xff00;
        pixels[pixel] = added[part] + redBlue + green;
      }
    }
  }

  copyTo(context) {
    context.putImageData(this.#image, -this.#margin, -this.#margin);
  }
}

class PassageMap {
  static COLOURS = 10; // --map-0 to --map-9 in the style sheet
  static NO_CLUSTER = PassageMap.COLOURS; // positions in the palette
  static DIM = PassageMap.COLOURS + 1;
  static MAX_ZOOM = 80;
  static MARGIN = 44; // CSS pixels between the outermost points and the edge, for names
  static REACH = { mouse: 6, touch: 20 }; // CSS pixels beside a point where it is still hit
  static GRID_CELLS = 128; // along the longer side
  static REST_MS = 120; // how long a pointer rests before a point is described
  static GLIDE_MS = 220;
  static NAME_LINE = 20; // characters
  static NAME_GAP = 10; // CSS pixels between two names
  static NAME_ROOM = 5; // a cluster this many times as large as its name has it in the middle
  static MAX_RADIUS = 8; // CSS pixels
  static BEST = [10, 30, Infinity]; // ranks from which points are drawn smaller
  static TOP_LEVEL = 3;
  static LEVEL_SIZES = [1, 1, 1.4, 2]; // radii of points at each level, compared with all alike
  static LEVEL_RADII = [0, 2.5, 3.5, 5]; // the smallest, in CSS pixels
  static RIM_FROM = 2.5; // the radius from which a rim parts points that overlap
  static DRAG_PX = 5; // a pointer that moves less has clicked

  static #darkScheme = matchMedia("(prefers-color-scheme: dark)");
  static #forcedColours = matchMedia("(forced-colors: active)");
  static #reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

  #canvas;
  #context;
  #card;
  #data;
  #host;
  #bounds; // of points and clusters, in units of the data
  #clusterColours = []; // as positions in the palette
  #pointColours; // the same
  #order; // all points, those of one colour together, which draws faster
  #grid;
  #width = 0; // of the canvas, in CSS pixels
  #height = 0;
  #ratio = 1; // device pixels in a CSS pixel
  #view; // the middle in units of the data, and the zoom
  #glide = null; // a movement from one view to another
  #frame = 0;
  #theme = null;
  #names = []; // of clusters, wrapped and measured
  #placement = { scale: 0, names: [] }; // the names for which there is room at a scale
  #raster = null;
  #levels = null; // of each point: 0 for those in the background, null if all are alike
  #litCount = 0;
  #litClusters = new Set();
  #highlighted = -1; // a cluster
  #hovered = { point: -1, cluster: -1 };
  #pinned = false; // whether the card stays where it is, after a tap
  #described = -1; // the point on the card
  #descriptions = new Map();
  #rest = 0;
  #pointers = new Map();
  #travel = 0; // CSS pixels that the pointer has moved since it went down
  #pointerType = "mouse";

  /**
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
    element.map = this;
    element.hidden = false;
  }

  /** The middle in units of the data, and the zoom; 1 shows everything. */
  get view() {
    return { ...this.#view };
  }

  set view(view) {
    this.#glide = null;
    this.#show(view);
  }

  /** How many points `light` made stand out. */
  get litCount() {
    return this.#litCount;
  }

  /** The names of clusters in sight, those of large clusters first. */
  get visibleNames() {
    return this.#namesInSight().map(({ lines }) => lines.join(" "));
  }

  /** The colour of a cluster as a CSS value; null if it is not on the map. */
  colourOf(clusterId) {
    const cluster = this.#indexOf(clusterId);
    return cluster < 0 ? null : `var(--map-${this.#clusterColours[cluster]})`;
  }

  /** The ids of a cluster's passages. */
  passagesOf(clusterId) {
    const cluster = this.#indexOf(clusterId);
    return this.#data.chunk_ids.filter((_, point) => this.#data.cluster[point] === cluster);
  }

  /**
   * Make passages stand out until the next call; null shows all alike. If they are ranked, best
   * first, the best are the largest points.
   */
  light(chunkIds, { ranked = false } = {}) {
    this.#litCount = 0;
    this.#levels = null;
    if (chunkIds) {
      const level = (rank) => (ranked ? PassageMap.BEST.findIndex((count) => rank < count) : 1);
      const levels = new Map(chunkIds.map((id, rank) => [id, PassageMap.TOP_LEVEL - level(rank)]));
      this.#levels = Uint8Array.from(this.#data.chunk_ids, (id) => levels.get(id) ?? 0);
      this.#litCount = this.#levels.reduce((count, value) => count + (value > 0), 0);
    }
    this.#litClusters = new Set(this.#data.cluster.filter((_, point) => this.#levels?.[point]));
    this.#draw();
  }

  /** Make a cluster stand out, instead of what is lit, until the next call; null for none. */
  highlight(clusterId) {
    this.#highlighted = this.#indexOf(clusterId);
    this.#draw();
  }

  /** Read the colours of the style sheet again. */
  refreshColours() {
    this.#theme = null;
    this.#draw();
  }

  /** Zoom in or out around a position on the canvas, in CSS pixels; its middle by default. */
  zoomBy(factor, { x = this.#width / 2, y = this.#height / 2, glides = true } = {}) {
    const from = this.#glide?.to ?? this.#view;
    const zoom = Math.min(Math.max(from.zoom * factor, 1), PassageMap.MAX_ZOOM);
    const shift = 1 / this.#scale(from.zoom) - 1 / this.#scale(zoom);
    const [dx, dy] = [x - this.#width / 2, y - this.#height / 2];
    this.#go({ x: from.x + dx * shift, y: from.y + dy * shift, zoom }, glides);
  }

  /** Move the view by CSS pixels. */
  panBy(dx, dy, glides = true) {
    const from = this.#glide?.to ?? this.#view;
    const scale = this.#scale(from.zoom);
    this.#go({ ...from, x: from.x + dx / scale, y: from.y + dy / scale }, glides);
  }

  /** Show everything. */
  showAll() {
    this.#go(this.#wholeView(), true);
  }

  /** Where a passage is in the window, in CSS pixels; null if it is not on the map. */
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

  /** Sort the points into square cells: a list of points, and where each cell begins in it. */
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
   * Give each cluster the colour whose nearest use is farthest from it, large clusters first. The
   * largest ten differ.
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
    this.#order = Uint32Array.from(colours.keys()).sort((a, b) => colours[a] - colours[b]);
  }

  // ---- view ----

  #wholeView() {
    const { left, top, width, height } = this.#bounds;
    return { x: left + width / 2, y: top + height / 2, zoom: 1 };
  }

  /** CSS pixels for a unit of the data. */
  #scale(zoom = this.#view.zoom) {
    const room = (length) => Math.max(length - 2 * PassageMap.MARGIN, 1);
    const { width, height } = this.#bounds;
    return Math.min(room(this.#width) / width, room(this.#height) / height) * zoom;
  }

  /** Where coordinates of the data are on the canvas, in CSS pixels. */
  #project(x, y) {
    const scale = this.#scale();
    return {
      x: (x - this.#view.x) * scale + this.#width / 2,
      y: (y - this.#view.y) * scale + this.#height / 2,
    };
  }

  #go(view, glides) {
    if (!glides || PassageMap.#reducedMotion.matches) {
      this.view = view;
    } else {
      this.#glide = { from: this.view, to: view, start: performance.now() };
      this.#draw();
    }
  }

  /** Show a view; its middle stays among the points. */
  #show({ x, y, zoom }) {
    const { left, top, right, bottom } = this.#bounds;
    const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
    this.#view = { x: clamp(x, left, right), y: clamp(y, top, bottom), zoom };
    this.#hideCard();
    this.#draw();
  }

  #stepGlide() {
    const { from, to, start } = this.#glide;
    const time = Math.min((performance.now() - start) / PassageMap.GLIDE_MS, 1);
    if (time === 1) {
      this.view = to;
      return;
    }
    const eased = 1 - (1 - time) ** 3;
    const zoom = from.zoom * (to.zoom / from.zoom) ** eased;
    // The middle moves with the width in sight, so that a fixed point stays where it is.
    const [widthBefore, width, widthAfter] = [1 / from.zoom, 1 / zoom, 1 / to.zoom];
    const way = widthBefore === widthAfter
      ? eased
      : (width - widthBefore) / (widthAfter - widthBefore);
    const middle = (axis) => from[axis] + (to[axis] - from[axis]) * way;
    this.#show({ x: middle("x"), y: middle("y"), zoom });
  }

  // ---- drawing ----

  /** Draw with the next frame. */
  #draw() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      if (this.#glide) this.#stepGlide();
      this.#fitCanvas();
      this.#theme ??= this.#readTheme();
      this.#drawPoints();
      this.#drawNames();
    });
  }

  #fitCanvas() {
    const ratio = devicePixelRatio;
    const [width, height] = [this.#width, this.#height].map((side) => Math.round(side * ratio));
    if (this.#raster && this.#canvas.width === width && this.#canvas.height === height) return;
    [this.#canvas.width, this.#canvas.height, this.#ratio] = [width, height, ratio];
    this.#theme = null; // the size of names depends on the width
    this.#raster = new DotRaster(width, height, this.#rasterMargin);
  }

  get #rasterMargin() {
    return Math.ceil((2 * PassageMap.MAX_RADIUS + 2) * this.#ratio);
  }

  /** Read colours and font from the style sheet, which knows light, dark and forced colours. */
  #readTheme() {
    const style = getComputedStyle(this.#canvas);
    const read = (name) => style.getPropertyValue(`--map-${name}`).trim();
    this.#measureNames(style.fontFamily);
    const [paper, ink, accent] = ["paper", "ink", "accent"].map(read);
    const ofClusters = Array.from({ length: PassageMap.COLOURS }, (_, colour) => read(colour));
    const palette = [...ofClusters, read("none"), read("dim")].map(DotRaster.parseColour);
    const inkChannels = DotRaster.parseColour(ink);
    // Half ink, so that text has enough contrast in the colour of its cluster.
    const nameColours = palette.map((colour) =>
      `rgb(${colour.map((channel, index) => (channel + inkChannels[index]) / 2).join(" ")})`);
    const background = DotRaster.parseColour(paper);
    return { palette, background, paper, ink, accent, nameColours };
  }

  /** The radius of a point in CSS pixels: small among many, larger when zoomed in. */
  get #radius() {
    const room = Math.sqrt((this.#width * this.#height) / Math.max(this.#order.length, 1));
    const whole = Math.min(Math.max(room * 0.13, 1.6), 6);
    return Math.min(whole * this.#view.zoom ** 0.4, PassageMap.MAX_RADIUS);
  }

  /** The cluster that stands out; -1 for none. */
  get #cluster() {
    return this.#hovered.cluster < 0 ? this.#highlighted : this.#hovered.cluster;
  }

  /** Whether a point stands out: it is of the cluster, or lit, or all are alike. */
  #standsOut(point) {
    if (this.#cluster >= 0) return this.#data.cluster[point] === this.#cluster;
    return this.#levels === null || this.#levels[point] > 0;
  }

  #drawPoints() {
    const levels = Uint8Array.from(this.#order, (point) => this.#levelOf(point));
    this.#raster.clear(this.#theme.background);
    for (let level = 0; level <= PassageMap.TOP_LEVEL; level++) {
      this.#drawDots(levels, level, (point) => (level ? this.#pointColours[point] : PassageMap.DIM));
    }
    this.#raster.copyTo(this.#context);
    if (this.#hovered.point >= 0) this.#drawRing(this.#hovered.point);
  }

  #levelOf(point) {
    if (this.#cluster >= 0 || this.#levels === null) return this.#standsOut(point) ? 1 : 0;
    return this.#levels[point];
  }

  /** The radius of points of a level, in CSS pixels. */
  #radiusOf(level) {
    const isSearch = this.#cluster < 0 && this.#levels !== null;
    const smallest = isSearch ? PassageMap.LEVEL_RADII[level] : 0;
    return Math.max(this.#radius * PassageMap.LEVEL_SIZES[level], smallest);
  }

  /** Draw the points of a level. */
  #drawDots(levels, level, colourOf) {
    if (!levels.includes(level)) return;
    const radius = this.#radiusOf(level);
    const { x, y } = this.#data;
    const [width, height] = [this.#canvas.width, this.#canvas.height];
    const scale = this.#scale() * this.#ratio;
    const offsetX = width / 2 - this.#view.x * scale;
    const offsetY = height / 2 - this.#view.y * scale;
    const rim = radius < PassageMap.RIM_FROM ? 0 : this.#ratio;
    const { palette, background } = this.#theme;
    const stamps = this.#raster.makeStamps(radius * this.#ratio, rim, palette, background);
    const reach = Math.ceil(radius * this.#ratio + rim);
    for (let place = 0; place < levels.length; place++) {
      if (levels[place] !== level) continue;
      const point = this.#order[place];
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

  /** Return the highest and the lowest point of each cluster, and its area, in units of the data. */
  #measureClusters() {
    const extents = this.#data.clusters.map(({ x, y }) => ({ left: x, right: x, high: y, low: y }));
    this.#data.cluster.forEach((cluster, point) => {
      const extent = extents[cluster];
      if (!extent) return;
      const [x, y] = [this.#data.x[point], this.#data.y[point]];
      Object.assign(extent, { left: Math.min(extent.left, x), right: Math.max(extent.right, x) });
      Object.assign(extent, { high: Math.min(extent.high, y), low: Math.max(extent.low, y) });
    });
    return extents.map(({ left, right, high, low }) => ({
      high,
      low,
      area: (right - left) * (low - high),
    }));
  }

  /**
   * Place the names at the current scale, without overlaps: in the middle of their cluster, or if
   * they would cover much of it, where they cover least. Panning does not change them.
   */
  #placeNames() {
    const scale = this.#scale();
    if (this.#placement.scale === scale) return this.#placement.names;
    const { left, top, right, bottom } = this.#bounds;
    const margin = PassageMap.MARGIN - 4;
    const clamp = (start, size, low, high) =>
      Math.max(Math.min(start, high * scale + margin - size), low * scale - margin);
    const distance = this.#radius + 5;
    const placed = [];
    for (const name of this.#names) {
      const isSmall = name.area * scale ** 2 < name.width * name.height * PassageMap.NAME_ROOM;
      const tops = [
        name.y * scale - name.height / 2,
        ...(isSmall ? [name.high * scale - distance - name.height, name.low * scale + distance] : []),
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

  /** Count the points under a box, whose place is in CSS pixels from the origin of the data. */
  #countCovered({ left, top, width, height }, scale) {
    const isCovered = (point) => {
      const [x, y] = [this.#data.x[point] * scale - left, this.#data.y[point] * scale - top];
      return x > 0 && y > 0 && x < width && y < height;
    };
    const half = { x: width / scale / 2, y: height / scale / 2 };
    const around = this.#pointsAround(left / scale + half.x, top / scale + half.y, half.x, half.y);
    return around.filter(isCovered).length;
  }

  /** The names in sight, with `left` and `top` on the canvas in CSS pixels. */
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
    const standsOut = (cluster) => this.#cluster < 0
      ? this.#levels === null || this.#litClusters.has(cluster)
      : this.#cluster === cluster;
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

  /** What is at a position on the canvas: a cluster by its name, or a point. */
  #hit(x, y) {
    const name = this.#namesInSight().find(({ left, top, width, height }) =>
      x >= left && y >= top && x <= left + width && y <= top + height);
    return name ? { cluster: name.cluster, point: -1 } : { cluster: -1, point: this.#nearest(x, y) };
  }

  /** The nearest point within reach, before others one that stands out; -1 for none. */
  #nearest(x, y) {
    const scale = this.#scale();
    const reach = (this.#radius + PassageMap.REACH[this.#pointerType]) / scale;
    const dataX = this.#view.x + (x - this.#width / 2) / scale;
    const dataY = this.#view.y + (y - this.#height / 2) / scale;
    let best = { point: -1, distance: reach, standsOut: false };
    for (const point of this.#pointsAround(dataX, dataY, reach, reach)) {
      const distance = Math.hypot(this.#data.x[point] - dataX, this.#data.y[point] - dataY);
      if (distance > reach) continue;
      const standsOut = this.#standsOut(point);
      const isBetter = standsOut === best.standsOut ? distance <= best.distance : standsOut;
      if (isBetter) best = { point, distance, standsOut };
    }
    return best.point;
  }

  /** The points in the cells of the grid that a rectangle touches, in units of the data. */
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
      around.push(...points.subarray(start, starts[row * columns + lastColumn + 1]));
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
      this.#rest = setTimeout(() => this.#describe(hovered.point), PassageMap.REST_MS);
    }
    this.#draw();
  }

  #hideCard() {
    clearTimeout(this.#rest);
    this.#hovered = { point: -1, cluster: -1 };
    this.#described = -1;
    this.#card.hidden = true;
    this.#canvas.classList.remove("pointing");
  }

  /** Show the card of a point; with a button if it is pinned. */
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
    if (this.#described !== point) return; // the pointer has moved on
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

  /** Put the card on the side of its point that has room, or else into the half without it. */
  #placeCard(point) {
    const { x, y } = this.#project(this.#data.x[point], this.#data.y[point]);
    const { offsetWidth: width, offsetHeight: height, style } = this.#card;
    const gap = this.#radius + 10;
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
    element.querySelector("[data-zoom-in]").addEventListener("click", () => this.zoomBy(1.6));
    element.querySelector("[data-zoom-out]").addEventListener("click", () => this.zoomBy(1 / 1.6));
    element.querySelector("[data-show-all]").addEventListener("click", () => this.showAll());
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
    this.#canvas.setPointerCapture(event.pointerId);
    if (this.#pointers.size === 0) this.#travel = 0;
    this.#pointers.set(event.pointerId, this.#positionIn(event));
    this.#pointerType = event.pointerType === "touch" ? "touch" : "mouse";
  }

  #onPointerMove(event) {
    const position = this.#positionIn(event);
    const before = this.#pointers.get(event.pointerId);
    if (!before) {
      this.#pointerType = event.pointerType === "touch" ? "touch" : "mouse";
      this.#hover(this.#hit(position.x, position.y));
      return;
    }
    this.#travel += Math.hypot(position.x - before.x, position.y - before.y);
    const other = [...this.#pointers].find(([id]) => id !== event.pointerId)?.[1];
    this.#pointers.set(event.pointerId, position);
    if (other) {
      this.#pinch(before, position, other);
    } else if (this.#travel >= PassageMap.DRAG_PX) {
      this.#canvas.classList.add("dragging");
      this.panBy(before.x - position.x, before.y - position.y, false);
    }
  }

  /** Zoom by the distance of two fingers, and move with their middle, while one of them moves. */
  #pinch(before, after, other) {
    const distance = (position) => Math.max(Math.hypot(position.x - other.x, position.y - other.y), 1);
    this.panBy((before.x - after.x) / 2, (before.y - after.y) / 2, false);
    const middle = { x: (after.x + other.x) / 2, y: (after.y + other.y) / 2 };
    this.zoomBy(distance(after) / distance(before), { ...middle, glides: false });
  }

  #onPointerUp(event) {
    this.#pointers.delete(event.pointerId);
    this.#canvas.classList.remove("dragging");
  }

  #onClick(event) {
    if (this.#travel >= PassageMap.DRAG_PX) return;
    const { x, y } = this.#positionIn(event);
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
    this.zoomBy(factor, { ...this.#positionIn(event), glides: false });
  }

  #onKeyDown(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = Math.min(this.#width, this.#height) / 5;
    const actions = {
      ArrowLeft: () => this.panBy(-step, 0),
      ArrowRight: () => this.panBy(step, 0),
      ArrowUp: () => this.panBy(0, -step),
      ArrowDown: () => this.panBy(0, step),
      "+": () => this.zoomBy(1.6),
      "=": () => this.zoomBy(1.6),
      "-": () => this.zoomBy(1 / 1.6),
      0: () => this.showAll(),
      Escape: () => this.#show(this.#view),
    };
    const act = actions[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }
}

/** Return whether two boxes overlap, or are too close for names. */
function overlap(a, b) {
  const gap = PassageMap.NAME_GAP;
  return a.left < b.left + b.width + gap && b.left < a.left + a.width + gap &&
    a.top < b.top + b.height + gap && b.top < a.top + a.height + gap;
}

/** Wrap a long name in two lines of about the same length; `…` marks what does not fit. */
function wrapName(name) {
  if (name.length <= PassageMap.NAME_LINE) return [name];
  const words = name.split(/\s+/);
  const splits = words.map((_, index) => [
    words.slice(0, index).join(" "),
    words.slice(index).join(" "),
  ]);
  const longest = (lines) => Math.max(...lines.map((line) => line.length));
  const lines = splits.reduce((best, split) => (longest(split) < longest(best) ? split : best));
  const limit = PassageMap.NAME_LINE * 1.3;
  return lines
    .filter(Boolean)
    .map((line) => (line.length > limit ? `${line.slice(0, limit - 1)}…` : line));
}
