// A map of passages on a canvas. People drag and zoom it, and open its points and clusters, whose
// names are shown where there is room. The map sends no requests: the page around it does, so the
// console and an app in a chat can both use it.
"use strict";

/**
 * @typedef {object} MapHost What the page around the map does on its behalf.
 * @property {(chunkId: string) => Promise<{title: string, text: string}>} describe
 * @property {(chunkId: string, inNewTab: boolean) => void} open
 * @property {(clusterId: string, inNewTab: boolean) => void} openCluster
 */

class PassageMap {
  static DIM = MapPoints.COLOURS + 1; // the palette's index for points in the background
  static HIT_DISTANCE = { mouse: 6, touch: 20 }; // CSS pixels beyond a dot's edge that still hit it
  static REST_MS = 120; // how long a pointer must rest on a point before the card appears
  static MIN_STEP = 3; // CSS pixels that an arrow key moves at least
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
  static NAME_DISTANCE = 5; // CSS pixels between a name outside of its cluster and the nearest dot
  static CARD_DISTANCE = 10; // CSS pixels between a dot's edge and its card

  static #darkScheme = matchMedia("(prefers-color-scheme: dark)");
  static #forcedColours = matchMedia("(forced-colors: active)");

  #canvas;
  #context;
  #points;
  #view;
  #names;
  #card;
  #host;
  #ratio = 1; // device pixels in a CSS pixel
  #frame = 0; // the id of the requested frame; 0 if none is requested
  #theme = null; // colours of the style sheet; null until they are read
  #raster = null;
  #levels = null; // the level of each point after `light`; null if no points are lit
  #litCount = 0;
  #litClusters = new Set(); // indexes of the clusters of lit points
  #highlighted = -1; // the index of a cluster; -1 for none
  #hovered = { point: -1, cluster: -1 }; // what is under the pointer
  #restTimer = 0;

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
    this.#host = host;
    this.#points = new MapPoints(data);
    this.#view = new MapView(this.#points.bounds, () => {
      this.#hideCard();
      this.#draw();
    });
    this.#names = new ClusterNames(this.#points, this.#view);
    this.#card = new PointCard(element.querySelector(".map-card"), this.#points, this.#view, host);
    this.#listen(element);
    element.map = this; // for the rest of the page's scripts
    element.hidden = false;
  }

  get view() {
    return this.#view;
  }

  /** The number of lit points. */
  get litCount() {
    return this.#litCount;
  }

  /** The visible names of clusters, largest cluster first. */
  get visibleNames() {
    return this.#listVisibleNames().map(({ lines }) => lines.join(" "));
  }

  /** Return the colour of a cluster as a CSS value; null if it is not on the map. */
  colourOf(clusterId) {
    const cluster = this.#points.findCluster(clusterId);
    return cluster < 0 ? null : `var(--map-${this.#points.clusterColours[cluster]})`;
  }

  /** Return the ids of a cluster's passages; none if the cluster is not on the map. */
  passagesOf(clusterId) {
    return this.#points.passagesOf(clusterId);
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
      this.#levels = Uint8Array.from(this.#points.chunkIds, (id) => levels.get(id) ?? 0);
      this.#litCount = this.#levels.reduce((count, value) => count + (value > 0), 0);
    }
    const litClusters = this.#points.clusterOf.filter((_, point) => this.#levels?.[point]);
    this.#litClusters = new Set(litClusters);
    this.#draw();
  }

  /**
   * Highlight a cluster: its points stand out instead of those that are lit. The next call replaces
   * it, and null clears it. A cluster under the pointer takes precedence.
   */
  highlight(clusterId) {
    this.#highlighted = this.#points.findCluster(clusterId);
    this.#draw();
  }

  /** Read the colours of the style sheet again. */
  refreshColours() {
    this.#theme = null;
    this.#draw();
  }

  /** Return a passage's position in the window, in CSS pixels; null if it is not on the map. */
  positionOf(chunkId) {
    const point = this.#points.chunkIds.indexOf(chunkId);
    if (point < 0) return null;
    const box = this.#canvas.getBoundingClientRect();
    const { x, y } = this.#project(point);
    return { x: box.x + x, y: box.y + y };
  }

  /** Return a point's position on the canvas, in CSS pixels. */
  #project(point) {
    return this.#view.project(this.#points.x[point], this.#points.y[point]);
  }

  // ---- drawing ----

  /** Draw in the next frame: once, however often this is called before. */
  #draw() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#view.stepAnimation();
      this.#fitCanvas();
      this.#theme ??= this.#readTheme();
      this.#drawPoints();
      this.#drawNames();
    });
  }

  #fitCanvas() {
    const ratio = devicePixelRatio;
    const { width: cssWidth, height: cssHeight } = this.#view;
    const [width, height] = [cssWidth, cssHeight].map((side) => Math.round(side * ratio));
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
    this.#names.measure(this.#context, style.fontFamily);
    const [paper, ink, accent] = ["paper", "ink", "accent"].map(read);
    const ofClusters = Array.from({ length: MapPoints.COLOURS }, (_, colour) => read(colour));
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
    const { width, height, zoom } = this.#view;
    const spacing = Math.sqrt((width * height) / Math.max(this.#points.chunkIds.length, 1));
    const unzoomed = Math.min(
      Math.max(spacing * PassageMap.RADIUS_PER_SPACING, PassageMap.MIN_BASE_RADIUS),
      PassageMap.MAX_UNZOOMED_RADIUS,
    );
    return Math.min(unzoomed * zoom ** PassageMap.RADIUS_GROWTH, PassageMap.MAX_BASE_RADIUS);
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
    if (this.#activeCluster >= 0) return this.#points.clusterOf[point] === this.#activeCluster;
    return this.#levels === null || this.#levels[point] > 0;
  }

  #drawPoints() {
    const { colours, sortedByColour } = this.#points;
    const sortedLevels = Uint8Array.from(sortedByColour, (point) => this.#levelOf(point));
    this.#raster.clear(this.#theme.background);
    for (let level = 0; level <= PassageMap.TOP_LEVEL; level++) {
      const colourOf = (point) => (level ? colours[point] : PassageMap.DIM);
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
   * @param {Uint8Array} sortedLevels The levels of the points in `sortedByColour`.
   * @param {number} level
   * @param {(point: number) => number} colourOf Returns the index of a colour in the palette.
   */
  #drawDots(sortedLevels, level, colourOf) {
    if (!sortedLevels.includes(level)) return;
    const radius = this.#radiusOf(level);
    const { x, y, sortedByColour } = this.#points;
    const [width, height] = [this.#canvas.width, this.#canvas.height];
    const scale = this.#view.scale * this.#ratio;
    const offsetX = width / 2 - this.#view.x * scale;
    const offsetY = height / 2 - this.#view.y * scale;
    const rim = radius < PassageMap.MIN_RIM_RADIUS ? 0 : this.#ratio;
    const { palette, background } = this.#theme;
    const stamps = this.#raster.makeStamps(radius * this.#ratio, rim, palette, background);
    const reach = Math.ceil(radius * this.#ratio + rim);
    for (let rank = 0; rank < sortedLevels.length; rank++) {
      if (sortedLevels[rank] !== level) continue;
      const point = sortedByColour[rank];
      const left = Math.round(x[point] * scale + offsetX);
      const top = Math.round(y[point] * scale + offsetY);
      if (left > -reach && top > -reach && left < width + reach && top < height + reach) {
        this.#raster.stamp(stamps[colourOf(point)], left, top);
      }
    }
  }

  #drawRing(point) {
    const radius = this.#radiusOf(this.#levelOf(point)) + 3;
    const { x, y } = this.#project(point);
    this.#withCssPixels((context) => {
      context.strokeStyle = this.#theme.ink;
      context.lineWidth = 2;
      context.beginPath();
      context.arc(x, y, radius, 0, 2 * Math.PI);
      context.stroke();
    });
  }

  #listVisibleNames() {
    return this.#names.listVisible(this.#baseRadius + PassageMap.NAME_DISTANCE);
  }

  #drawNames() {
    const { paper, accent, nameColours } = this.#theme;
    const standsOut = (cluster) => this.#activeCluster < 0
      ? this.#levels === null || this.#litClusters.has(cluster)
      : this.#activeCluster === cluster;
    this.#withCssPixels((context) => {
      Object.assign(context, { textAlign: "center", textBaseline: "middle", lineJoin: "round" });
      for (const name of this.#listVisibleNames()) {
        context.font = name.font;
        context.globalAlpha = standsOut(name.cluster) ? 1 : 0.4;
        context.strokeStyle = paper;
        context.lineWidth = 5;
        context.fillStyle = name.cluster === this.#hovered.cluster
          ? accent
          : nameColours[this.#points.clusterColours[name.cluster]];
        name.lines.forEach((line, index) => {
          const x = name.left + name.width / 2;
          const y = name.top + name.lineHeight * (index + 0.5);
          context.strokeText(line, x, y);
          context.fillText(line, x, y);
        });
      }
    });
  }

  #withCssPixels(draw) {
    this.#context.save();
    this.#context.scale(this.#ratio, this.#ratio);
    draw(this.#context);
    this.#context.restore();
  }

  // ---- pointing ----

  #listen(element) {
    new MapInput(element, this.#view, {
      onHover: (pointing) => this.#hover(this.#findAt(pointing)),
      onLeave: () => this.#hover({ point: -1, cluster: -1 }),
      onClick: (pointing, inNewTab) => this.#open(pointing, inNewTab),
      onStep: (x, y) => this.#step(x, y),
      onEnter: () => this.#hovered.point >= 0 &&
        this.#host.open(this.#points.chunkIds[this.#hovered.point], false),
      onEscape: () => {
        this.#hideCard();
        this.#draw();
      },
    });
    for (const query of [PassageMap.#darkScheme, PassageMap.#forcedColours]) {
      query.addEventListener("change", () => this.refreshColours());
    }
    new ResizeObserver(([{ contentRect: { width, height } }]) => {
      Object.assign(this.#view, { width, height });
      this.#hideCard();
      this.#draw();
    }).observe(this.#canvas);
  }

  /** Return what is under a pointer: the cluster whose name is there, otherwise a point. */
  #findAt({ x, y, pointerType }) {
    const name = this.#listVisibleNames().find(({ left, top, width, height }) =>
      x >= left && y >= top && x <= left + width && y <= top + height);
    if (name) return { cluster: name.cluster, point: -1 };
    return { cluster: -1, point: this.#findNearest(x, y, PassageMap.HIT_DISTANCE[pointerType]) };
  }

  /**
   * Return the nearest point whose dot is within a distance from a position on the canvas, in CSS
   * pixels; -1 for none. Points that stand out take precedence over nearer ones.
   */
  #findNearest(x, y, maxDistance) {
    const { scale } = this.#view;
    const reaches = PassageMap.LEVEL_SCALES.map(
      (_, level) => (this.#radiusOf(level) + maxDistance) / scale,
    );
    const maxReach = Math.max(...reaches);
    const centre = this.#view.unproject(x, y);
    let best = { point: -1, distance: Infinity, standsOut: false };
    for (const point of this.#points.around(centre.x, centre.y, maxReach, maxReach)) {
      const [dx, dy] = [this.#points.x[point] - centre.x, this.#points.y[point] - centre.y];
      const distance = Math.hypot(dx, dy);
      if (distance > reaches[this.#levelOf(point)]) continue;
      const standsOut = this.#standsOut(point);
      const isBetter = standsOut === best.standsOut ? distance <= best.distance : standsOut;
      if (isBetter) best = { point, distance, standsOut };
    }
    return best.point;
  }

  /** Go to the nearest point that stands out in the direction of an arrow key, within 45 degrees. */
  #step(stepX, stepY) {
    const { view } = this;
    const current = this.#hovered.point;
    const from = current < 0 ? { x: view.width / 2, y: view.height / 2 } : this.#project(current);
    let best = { point: -1, distance: Infinity };
    for (const point of this.#points.chunkIds.keys()) {
      const { x, y } = this.#project(point);
      const [dx, dy] = [x - from.x, y - from.y];
      const along = dx * stepX + dy * stepY;
      const across = Math.abs(dx * stepY) + Math.abs(dy * stepX);
      if (along < PassageMap.MIN_STEP || across > along || !this.#standsOut(point)) continue;
      if (along + across < best.distance) best = { point, distance: along + across };
    }
    if (best.point < 0) return;
    const { x, y } = this.#project(best.point);
    if (x < 0 || y < 0 || x > view.width || y > view.height) {
      view.panBy(x - view.width / 2, y - view.height / 2, false);
    }
    this.#hover({ point: best.point, cluster: -1 }, { pinned: true });
  }

  #hover(hovered, options) {
    const isSame = hovered.point === this.#hovered.point && hovered.cluster === this.#hovered.cluster;
    if (isSame) return;
    this.#hideCard();
    this.#hovered = hovered;
    this.#canvas.classList.toggle("pointing", hovered.point >= 0 || hovered.cluster >= 0);
    if (hovered.point >= 0) {
      this.#restTimer = setTimeout(() => this.#showCard(hovered.point, options), PassageMap.REST_MS);
    }
    this.#draw();
  }

  #showCard(point, options) {
    this.#card.show(point, this.#baseRadius + PassageMap.CARD_DISTANCE, options);
  }

  #hideCard() {
    clearTimeout(this.#restTimer);
    this.#hovered = { point: -1, cluster: -1 };
    this.#card.hide();
    this.#canvas.classList.remove("pointing");
  }

  /** Open what is under the pointer. A finger cannot hover, so its tap shows the card of a point. */
  #open(pointing, inNewTab) {
    const { cluster, point } = this.#findAt(pointing);
    this.#hideCard();
    if (cluster >= 0) {
      this.#host.openCluster(this.#points.clusters[cluster].cluster_id, inNewTab);
    } else if (point >= 0 && pointing.pointerType === "touch") {
      this.#hovered = { point, cluster: -1 };
      this.#showCard(point, { pinned: true });
    } else if (point >= 0) {
      this.#host.open(this.#points.chunkIds[point], inNewTab);
    }
    this.#draw();
  }
}
